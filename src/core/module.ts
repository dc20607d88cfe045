// What a module gives the composition root: values that interpreters read. Absent lists are empty.
import type { ChannelKind } from "./channel.ts";
import type { EventType } from "./event.ts";
import type { JobKind } from "./job.ts";
import type { Operation } from "./operation.ts";
import type { Route } from "./route.ts";

export type Module = {
  name: string;
  operations: readonly Operation[];
  /** What is not request → reply of JSON: file bodies, feeds, streams. */
  routes?: readonly Route[];
  channels?: readonly ChannelKind[];
  /** Every type of durable event that the module emits. */
  events?: readonly EventType[];
  jobs?: readonly JobKind[];
  /** Removes what the module keeps of a room that is purged; safe to repeat. */
  purgeRoom?: (tenantId: string, roomId: string) => Promise<void>;
  /** Entry of the module in `GET /v1/collaboration/capabilities`. */
  capability?: () => Record<string, unknown>;
};
