// What a module gives the composition root: values that interpreters read. Absent lists are empty.
import type { ChannelKind } from "./channel.ts";
import type { JobKind } from "./job.ts";
import type { Operation } from "./operation.ts";

export type Module = {
  name: string;
  operations: readonly Operation[];
  channels?: readonly ChannelKind[];
  jobs?: readonly JobKind[];
  /** Removes what the module keeps of a room that is purged; safe to repeat. */
  purgeRoom?: (tenantId: string, roomId: string) => Promise<void>;
  /** Entry of the module in `GET /v1/collaboration/capabilities`. */
  capability?: () => Record<string, unknown>;
};
