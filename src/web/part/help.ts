// Keys, and how text is formatted.
import type { VNode } from "preact";
import { html } from "../core/html.ts";
import { closeDialog, Heading, openDialog } from "./dialog.ts";

type Entry = readonly [what: string, how: string];

const KEYS: readonly Entry[] = [
  ["Search, or go to a room", "Ctrl K"],
  ["Room before or after this one", "Alt ↑ ↓"],
  ["This help", "Ctrl /"],
  ["Send", "Enter"],
  ["New line", "Shift Enter"],
  ["Edit the last message, while nothing is written", "↑"],
  ["Move between messages", "Tab, then ↑ ↓"],
  ["Open the thread of a message", "Enter"],
  ["Edit an own message", "E"],
  ["Save a message, which is listed in Later", "S"],
  ["Mark a message and those after it as unread", "U"],
  ["Close a thread, a pane or a dialog", "Escape"],
  ["Move a task on the board", "Alt and an arrow"],
];
const FORMATS: readonly Entry[] = [
  ["Bold", "**text**, or Ctrl B"],
  ["Italic", "_text_, or Ctrl I"],
  ["Struck through", "~~text~~, or Ctrl Shift X"],
  ["Code", "`text`, or Ctrl E"],
  ["Block of code", "``` on a line before and after it"],
  ["Quote", "> text"],
  ["List", "- text, or 1. text"],
  ["Link", "[text](address), or paste an address on selected text"],
  ["Mention a person, or everybody", "@name, or @all"],
  ["Link to a room", "#name"],
  ["Emoji", ":name:"],
  ["Command", "/ at the beginning"],
];

export function openHelp(): void {
  openDialog(() =>
    html`
      <div class="wide-dialog">
        <${Heading} title="Keys and formatting" onClose=${closeDialog} />
        <div class="help">
          <${List} title="Keys" entries=${KEYS} />
          <${List} title="Formatting" entries=${FORMATS} />
        </div>
        <p class="dim">On a Mac, press Cmd instead of Ctrl. Programs use the <a href="docs">API</a> of this gateway.</p>
      </div>
    `
  );
}

function List({ title, entries }: { title: string; entries: readonly Entry[] }): VNode {
  return html`
    <section>
      <h3>${title}</h3>
      <dl>${entries.map(([what, how]) =>
        html`
          <div key=${what}>
            <dt>${what}</dt>
            <dd><kbd>${how}</kbd></dd>
          </div>
        `
      )}</dl>
    </section>
  `;
}
