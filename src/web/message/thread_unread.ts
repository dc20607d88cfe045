// Whether replies are unread in threads that the caller takes part in, for the sidebar.
import { get } from "../core/api.ts";
import { onEvent } from "../core/live.ts";
import type { Page } from "../core/resources.ts";
import { hasUnreadThreads } from "../notification/inbox_state.ts";

const READ_AGAIN_MS = 1000;
let timer: ReturnType<typeof setTimeout> | undefined;

export async function readUnreadThreads(): Promise<void> {
  const { items } = await get<Page<unknown>>("v1/threads", { unread: true, limit: 1 });
  hasUnreadThreads.value = items.length > 0;
}

// Who takes part in a thread is notified of replies: others need not ask for each reply in their rooms.
onEvent(({ type }) => {
  if (!(hasUnreadThreads.peek() ? /^read\.|^message\.deleted|^thread\./ : /^notification\./).test(type)) return;
  timer ??= setTimeout(() => {
    timer = undefined;
    // Without a connection it is read with the next change.
    readUnreadThreads().catch(() => undefined);
  }, READ_AGAIN_MS);
});
