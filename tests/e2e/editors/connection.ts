// What the pages of the editor tests share: the provider, a line that says what it says, and what the test asks of the editor.
/// <reference lib="dom" />
import { HocuspocusProvider } from "npm:@hocuspocus/provider@4.8.0";

/** What a page offers to the test that drives it. */
type EditorPage = {
  /** The content as the editor has it. */
  read(): unknown;
  /** A change by the editor's own commands. */
  run(command: string, argument?: unknown): void;
  /** What the provider says, and how many others have the document open. */
  status(): { isSaved: boolean; others: number; refused: string[]; closed: string[] };
};

const fields = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
export const user = { name: fields.name ?? "", color: fields.color ?? "#888888" };
const refused: string[] = [];
const closed: string[] = [];
export const provider = new HocuspocusProvider({
  url: fields.url ?? "",
  name: fields.id ?? "",
  token: fields.token ?? "",
  // After the first attempt it would wait for seconds.
  ...{ delay: 250, minDelay: 100, maxDelay: 250 },
  onAuthenticationFailed: ({ reason }) => void refused.push(reason),
  onClose: ({ event }) => void closed.push(event.reason),
});

const heading = document.createElement("h1");
heading.textContent = user.name;
const line = document.createElement("p");
export const mount = document.createElement("div");
mount.id = "editor";
document.body.append(heading, line, mount);

/** Offers an editor to the test. */
export function offer(page: Omit<EditorPage, "status">): void {
  const status = (): ReturnType<EditorPage["status"]> => ({
    isSaved: provider.isSynced && !provider.hasUnsyncedChanges,
    others: (provider.awareness?.getStates().size ?? 1) - 1,
    refused,
    closed,
  });
  Object.assign(globalThis, { editorPage: { ...page, status } satisfies EditorPage });
  setInterval(() => {
    const { isSaved, others } = status();
    const state = refused.length > 0 ? `refused: ${refused.at(-1)}` : isSaved ? "saved" : "saving";
    const text = `${state}, with ${others} others`;
    if (line.textContent !== text) line.textContent = text;
  }, 100);
}

/** Resolves when the content of the gateway has arrived. */
export function synced(): Promise<void> {
  return new Promise((resolve) => provider.isSynced ? resolve() : provider.on("synced", () => resolve()));
}
