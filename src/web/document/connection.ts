// The connection of a live document, over the Hocuspocus protocol: its state, who else is there, and what was refused.
import { HocuspocusProvider } from "@hocuspocus/provider";
import type { Doc } from "yjs";
import { addressOf } from "../core/api.ts";
import { nameOf } from "../core/people.ts";
import { myId, token } from "../core/session.ts";

/** `unknown` names what the document contains that its editor cannot show. */
export type EditorStatus = {
  isSaved: boolean;
  isConnected: boolean;
  names: readonly string[];
  failure: string;
  unknown: string;
};
/** A heading; `at` is its place in the editor. */
export type OutlineEntry = { level: number; title: string; at: number };
export type Editor = {
  text(): string;
  outline(): OutlineEntry[];
  /** Puts the cursor at a heading, and shows it. */
  goTo(at: number): void;
  /** Where in `text()`. */
  selection(): { from: number; to: number };
  setReadOnly(isReadOnly: boolean): void;
  close(): void;
};
export type Awareness = NonNullable<HocuspocusProvider["awareness"]>;
type Connection = {
  document: Doc;
  awareness: Awareness;
  /** Ends editing, as an editor would destroy what it does not know. */
  setUnknown(name: string): void;
  setReadOnly(isReadOnly: boolean): void;
  close(): void;
};

const STATUS_MS = 150;
const REASONS: Readonly<Record<string, string>> = {
  "permission-denied": "You no longer have access to this document.",
};
/** Reasons that a message has explained before. */
const REFUSED: ReadonlySet<string> = new Set(["content-refused", "quota-exceeded"]);

/**
 * `onSynced` is called once, when the content has arrived; `onEditable` when it is known whether it may be edited, and when
 * that changes.
 */
export function connect({ id, onStatus, onSynced, onEditable }: {
  id: string;
  onStatus: (status: EditorStatus) => void;
  onSynced: (connection: Connection) => void;
  onEditable: (isEditable: boolean) => void;
}): Connection {
  let failure = "";
  let isFinal = false;
  let mayWrite = false;
  let isReadOnly = true;
  let unknown = "";
  let isOpen = false;
  const provider = new HocuspocusProvider({
    url: addressOf("v1/collaboration/documents/sync").replace(/^http/, "ws"),
    name: id,
    token: () => token.value,
    onAuthenticationFailed: ({ reason }) => {
      if (!REFUSED.has(reason) || failure === "") failure = REASONS[reason] ?? reason;
      isFinal = true;
      setRights(false, isReadOnly);
    },
    onStateless: ({ payload }) => {
      const { type, detail } = JSON.parse(payload);
      if (type === "document.refused") failure = `Not saved: ${detail}`;
    },
    onAuthenticated: ({ scope }) => {
      isFinal = false;
      setRights(scope === "read-write", isReadOnly);
    },
  });
  const awareness = provider.awareness as Awareness;
  provider.setAwarenessField("user", { name: nameOf(myId()), color: "#3b5bcc", colorLight: "#3b5bcc33" });
  // Without a session there is nobody to send it for.
  const isUnsaved = (): boolean => isOpen && mayWrite && provider.hasUnsyncedChanges && token.value !== "";
  const warn = (event: Event): void => void (isUnsaved() && event.preventDefault());
  addEventListener("beforeunload", warn);
  const connection = {
    document: provider.document,
    awareness,
    setUnknown: (name: string) => void (unknown = name),
    setReadOnly: (is: boolean) => setRights(mayWrite, is),
    close() {
      clearInterval(timer);
      awareness.setLocalState(null);
      // What was written without a connection is sent when there is one again.
      if (isUnsaved()) return void setTimeout(connection.close, STATUS_MS);
      removeEventListener("beforeunload", warn);
      provider.destroy();
    },
  };
  provider.on("synced", () => {
    if (!isOpen) onSynced(connection);
    isOpen = true;
  });
  const timer = setInterval(report, STATUS_MS);
  let last = "";

  function setRights(mayWriteNow: boolean, isReadOnlyNow: boolean): void {
    mayWrite = mayWriteNow;
    isReadOnly = isReadOnlyNow;
    onEditable(mayWrite && !isReadOnly);
  }

  function report(): void {
    const isSaved = provider.isSynced && !provider.hasUnsyncedChanges;
    // What was refused for a while has been accepted since.
    if (isSaved && !isFinal) failure = "";
    const names = [...awareness.getStates().values()].map(({ user }) => String(user?.name ?? ""));
    const status = {
      isSaved,
      isConnected: provider.configuration.websocketProvider.status === "connected",
      names: [...new Set(names.filter((name) => name !== ""))],
      failure,
      unknown,
    };
    if (JSON.stringify(status) === last) return;
    last = JSON.stringify(status);
    onStatus(status);
  }

  return connection;
}
