// The room whose call this tab takes part in. The call itself is loaded with the first one; this is shown everywhere.
import { signal } from "@preact/signals";

export const callRoomId = signal<string | undefined>(undefined);
