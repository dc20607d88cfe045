// What a module gives the composition root: values that interpreters read. Absent lists are empty.
import type { ChannelKind } from "./channel.ts";
import type { JobKind } from "./job.ts";
import type { Operation } from "./operation.ts";

export type Module = {
  name: string;
  operations: readonly Operation[];
  channels?: readonly ChannelKind[];
  jobs?: readonly JobKind[];
  /** Entry of the module in `GET /v1/collaboration/capabilities`. */
  capability?: () => Record<string, unknown>;
};
