// Copying a text. Browsers have a clipboard for secure pages only, which those of a gateway in a local network are not.
import { notify } from "./notice.ts";

export async function copyText(text: string, done: string): Promise<void> {
  const { clipboard } = navigator as { clipboard?: Clipboard };
  // A secure page may still be refused: by the person, or by a policy of the browser.
  const isDone = await clipboard?.writeText(text).then(() => true, () => false);
  if (isDone !== true && !copyByEvent(text)) throw new Error("Your browser does not let this page copy");
  notify(done);
}

/** What older browsers have for this: the page decides what a command of the user copies. */
function copyByEvent(text: string): boolean {
  const give = (event: ClipboardEvent): void => {
    event.preventDefault();
    event.clipboardData?.setData("text/plain", text);
  };
  document.addEventListener("copy", give);
  const isDone = document.execCommand("copy");
  document.removeEventListener("copy", give);
  return isDone;
}
