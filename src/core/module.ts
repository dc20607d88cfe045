// What a module registers about itself. Hosts (transports, search, maintenance, metrics, shutdown) read it and name no module.
import type { Gauge } from "prom-client";
import type { Actor } from "./actor.ts";
import type { AnyArchiveSection } from "./archive/section.ts";
import type { EncryptedColumn } from "./crypto.ts";
import type { ChannelKind } from "./event/channel.ts";
import type { PrincipalErasure } from "./erasure.ts";
import type { EventType, StoredEvent } from "./event/event.ts";
import type { IsHeld, KeepState } from "./hold.ts";
import type { ActionTarget, CommandSource } from "./interaction/interaction.ts";
import type { JobDraft, JobKind } from "./job.ts";
import type { Leases } from "./lease.ts";
import type { AnyDatabase, Migration } from "./migration.ts";
import type { Operation, RecordCall } from "./operation.ts";
import type { Route } from "./http/route.ts";
import type { Searchable } from "./searchable.ts";

/** What clients see of a module. Absent lists are empty. */
export type ModuleApi = {
  /** A sentence for each tag under which the documents list the paths of the module. */
  tags?: Readonly<Record<string, string>>;
  operations: readonly Operation[];
  /** Endpoints that are not a request and a response of JSON: file contents, feeds, streams. */
  routes?: readonly Route[];
  channels?: readonly ChannelKind[];
  /** Every type of durable event that the module emits. */
  events?: readonly EventType[];
};

/** A change of a principal or of its token on which other modules may react. `picture`: the picture before is no longer shown. */
export type PrincipalChange = "disabled" | "enabled" | "profile" | "picture" | "token_ended";

/** Names a principal among those of all tenants. */
export type PrincipalKey = { tenantId: string; id: string };

/** Of these ids, those that exist and may be read by the actor now: in committed state, or in what `db` sees. */
export type CanRead = (actor: Actor, ids: readonly string[], db?: AnyDatabase) => Promise<ReadonlySet<string>>;

/** A gauge of the module, set when metrics are scraped. */
export type ModuleGauge = { gauge: Gauge<string>; collect: (gauge: Gauge<string>) => void | Promise<void> };

export type Module = ModuleApi & {
  name: string;
  /** Creates and changes the tables of the module, in order. Applied before `start`. */
  migrations?: readonly Migration[];
  jobs?: readonly JobKind[];
  /** Jobs that are enqueued in the transaction of a change; `id` is the principal, or the token that ended. */
  jobsOn?: Readonly<Partial<Record<PrincipalChange, (tenantId: string, id: string) => JobDraft | JobDraft[]>>>;
  /** Leases of work that is no job. */
  leases?: Leases;
  /** Makes the module's resources searchable, by kind. */
  search?: Searchable | readonly Searchable[];
  /** Kinds of notifications that the module creates, each with the preference that turns it off; null: always created. */
  notificationKinds?: Readonly<Record<string, string | null>>;
  /** Exports and imports the module's resources. */
  archive?: AnyArchiveSection;
  /** Offers commands in rooms. */
  commands?: CommandSource;
  /** Responds to the buttons, selects and forms of its messages. */
  actions?: ActionTarget;
  /** By type of resource, as in notifications. */
  canRead?: Readonly<Record<string, CanRead>>;
  /** The scope that reads a resource, by type of resource as in notifications. */
  resourceScopes?: Readonly<Record<string, string>>;
  /** The actor with its current rights; `undefined` if its principal or its token has ended. */
  revalidate?: (actor: Actor) => Promise<Actor | undefined>;
  /** Those of these principals that were not erased; `tenantId` and `id` of each. */
  findPrincipals?: (db: AnyDatabase, principals: readonly PrincipalKey[]) => Promise<readonly PrincipalKey[]>;
  /** Records calls for administrators. */
  record?: RecordCall;
  /** Whether something must not be deleted for good. */
  isHeld?: IsHeld;
  /** Stores states of what is under a hold. */
  keepState?: KeepState;
  /** Deletes what the module stores for a room that is purged; safe to repeat. */
  purgeRoom?: (tenantId: string, roomId: string) => Promise<void>;
  /** Called in the transaction that deletes messages of a room: to delete, or enqueue to delete, what was derived from them. */
  eraseMessages?: (tenantId: string, roomId: string, messageIds: readonly string[]) => Promise<void>;
  /** What becomes of its tables when a person is erased: of every column that may name or describe people. */
  erases?: PrincipalErasure;
  /** What it stores encrypted: it is encrypted again after a rotation of the gateway's secret. */
  encrypted?: readonly EncryptedColumn[];
  /** Receives the events of each commit of this node, in stream order. Must not throw or wait. */
  onCommit?: (events: readonly StoredEvent[]) => void;
  /** Called when another database server took over: what it lacks of the last one must not stay in memory. */
  onFailover?: () => void;
  gauges?: readonly ModuleGauge[];
  /** Hourly tasks by name, such as deleting what has expired. */
  maintenance?: Readonly<Record<string, () => unknown>>;
  /** Begins background work, once everything is built. */
  start?: () => void;
  /** Ends what keeps clients waiting and interrupts long work, so that calls and jobs under way end soon. Safe to repeat. */
  drain?: () => void | Promise<void>;
  /** Ends background work; called after the last job. */
  stop?: () => void | Promise<void>;
  /** Entry of the module in `GET /v1/collaboration/capabilities`. */
  capability?: () => Record<string, unknown>;
};

/** All operations by name. Two of one name would shadow each other. */
export function operationsOf(modules: readonly Module[]): ReadonlyMap<string, Operation> {
  const operations = new Map<string, Operation>();
  for (const operation of modules.flatMap((module) => module.operations)) {
    if (operations.has(operation.name)) throw new TypeError(`Expected one operation ${operation.name}, received two`);
    operations.set(operation.name, operation);
  }
  return operations;
}
