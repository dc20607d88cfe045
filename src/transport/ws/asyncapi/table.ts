// Codes and limits in the AsyncAPI document, from the definitions that the gateway uses.
import { DISCONNECT, type Disconnect } from "../../shared/disconnect.ts";
import { ERROR_MEANINGS, ERRORS, type ReplyError, UNSUBSCRIBE, UNSUBSCRIBE_MEANINGS } from "../protocol.ts";
import type { WsLimits } from "../../shared/socket_limits.ts";

/** Descriptions of the limits that clients may reach. */
const LIMIT_MEANINGS = {
  subscriptionsMax: "Maximum subscriptions of a connection",
  rate: "Rate limit of commands of a connection; commands about channels, such as `subscribe` and `presence`, " +
    "have a separate limit",
  publishRate: "Rate limit of publications of a connection",
  commandWaitMs: "Longest wait of a command over the rate limit, in ms; then it is rejected with error 111",
  refusedRate:
    "Rejected commands of a connection, each counted per KiB; beyond this the connection is closed with 3013",
  frameMaxBytes: "Maximum size of a frame from a client, in bytes",
  connectMaxBytes: "Maximum size of a `connect` command, in bytes",
  inboxMaxBytes: "Maximum size of all waiting commands, in bytes; further commands are rejected with error 111",
  outboxMaxBytes:
    "Maximum size of data queued for a slow client, in bytes; beyond this the connection is closed with 3008",
  replyMaxEvents:
    "Maximum number of events in a recovery reply or a page of history; a longer recovery continues after the " +
    "reply",
  replyMaxBytes: "Maximum size of the events in a recovery reply or a page of history, in bytes",
  connectionsPerPrincipal: "Maximum connections of a principal on a node",
  connectionsPerAddress: "Maximum connections from an address to a node",
  failedPerAddress:
    "Rate limit of connections from an address that end before they authenticate, unless their token is " +
    "valid or has expired; beyond this, upgrades are refused with status 429",
  authTimeoutMs: "Time in which a connection must authenticate, in ms",
  pingMs: "Interval of pings, in ms",
  pongTimeoutMs: "Time in which a ping must be answered, in ms",
  refreshGraceMs: "Time after the expiry of a token in which it can be refreshed, in ms",
} as const satisfies Partial<Record<keyof WsLimits, string>>;

type CloseCode = { code: number; reason: string; reconnect: boolean; description: string };
type UnsubscribeCode = { code: number; resubscribe: boolean; description: string };
type ErrorCode = { code: number; message: string; temporary: boolean; description: string };
export type Limit = { name: string; value: number | { perSecond: number; burst: number }; description: string };

/** Extensions of the document. */
export type Tables = {
  "x-close-codes": CloseCode[];
  "x-unsubscribe-codes": UnsubscribeCode[];
  "x-error-codes": ErrorCode[];
  "x-limits": Limit[];
};

/** The tables; disabled limits are left out. */
export function tablesOf(limits: WsLimits): Tables {
  return {
    "x-close-codes": byCode(
      Object.values<Disconnect>(DISCONNECT).map(({ code, reason, reconnect, meaning }) => (
        { code, reason, reconnect, description: meaning }
      )),
    ),
    "x-unsubscribe-codes": byCode(
      keysOf(UNSUBSCRIBE).map((name) => (
        {
          code: UNSUBSCRIBE[name],
          resubscribe: UNSUBSCRIBE[name] >= UNSUBSCRIBE.insufficientState,
          description: UNSUBSCRIBE_MEANINGS[name],
        }
      )),
    ),
    "x-error-codes": byCode(
      keysOf(ERRORS).map((name) => {
        const { code, message, temporary }: ReplyError = ERRORS[name];
        return { code, message, temporary: temporary === true, description: ERROR_MEANINGS[name] };
      }),
    ),
    "x-limits": keysOf(LIMIT_MEANINGS).flatMap((name) => {
      const value = limits[name];
      return value === undefined ? [] : [{ name, value, description: LIMIT_MEANINGS[name] }];
    }),
  };
}

/** How clients must handle rate limits. */
export function rateAdvice({ rate, commandWaitMs }: WsLimits): string {
  const limit = rate === undefined
    ? "Commands are not rate-limited here"
    : `A connection may send ${rate.burst} commands at once and ${rate.perSecond} a second on average; commands ` +
      "about channels have a higher limit";
  return `${limit}. Commands over the limit wait for up to ${commandWaitMs / 1000} s. After that they fail ` +
    "with error 111, `too many requests`, which is `temporary`: the command was not executed. Retry after a " +
    "random delay of up to 1 s, doubled with each rejection up to 20 s. SDKs do this for subscriptions; for " +
    "`rpc`, `publish`, `presence` and `history` the application must. A connection that does not slow down is " +
    "closed with 3013. After a close code with `reconnect`, reconnect after a random delay of up to 0.5 s, " +
    "doubled with each attempt up to 20 s.";
}

function byCode<Row extends { code: number }>(rows: Row[]): Row[] {
  return rows.sort((one, other) => one.code - other.code);
}

function keysOf<Table extends object>(table: Table): (keyof Table & string)[] {
  return Object.keys(table) as (keyof Table & string)[]; // object literals have no other keys
}
