// CodeMirror bound to a Y.Text: changes in both directions, an undo that leaves the changes of others, and their cursors.
import { Annotation, type Extension, type Range, RangeSet, StateEffect } from "@codemirror/state";
import {
  Decoration,
  type DecorationSet,
  type EditorView,
  keymap,
  ViewPlugin,
  type ViewUpdate,
  WidgetType,
} from "@codemirror/view";
import * as Y from "yjs";
import { colorOf } from "../core/format.ts";

type Awareness = {
  clientID: number;
  getLocalState(): Record<string, unknown> | null;
  getStates(): Map<number, Record<string, unknown>>;
  setLocalStateField(field: string, value: unknown): void;
  on(event: "change", listener: (change: unknown, origin: unknown) => void): void;
  off(event: "change", listener: (change: unknown, origin: unknown) => void): void;
};
type Delta = { insert?: unknown; delete?: number; retain?: number }[];

/** Marks transactions that come from others. */
const remote = Annotation.define<boolean>();
/** Cursors of others moved. */
const cursorsMoved = StateEffect.define<null>();

/** The extensions that bind an editor to a text; cursors are shared as `y-codemirror.next` does. */
export function bindText(text: Y.Text, awareness: Awareness): { extensions: Extension; undo: Y.UndoManager } {
  const origin = {};
  const undo = new Y.UndoManager(text, { trackedOrigins: new Set([origin]) });
  const run = (action: () => unknown) => (): boolean => {
    action();
    return true;
  };
  return {
    undo,
    extensions: [
      synchronization(text, origin),
      cursors(text, awareness),
      keymap.of([
        { key: "Mod-z", run: run(() => undo.undo()), preventDefault: true },
        { key: "Mod-y", mac: "Mod-Shift-z", run: run(() => undo.redo()), preventDefault: true },
        { key: "Mod-Shift-z", run: run(() => undo.redo()), preventDefault: true },
      ]),
    ],
  };
}

function synchronization(text: Y.Text, origin: object): Extension {
  return ViewPlugin.define((view) => {
    const observer = ({ delta }: { delta: unknown }, transaction: Y.Transaction): void => {
      if (transaction.origin === origin) return;
      view.dispatch({ changes: changesOf(delta as Delta), annotations: remote.of(true) });
    };
    text.observe(observer);
    return {
      update(update: ViewUpdate): void {
        if (!update.docChanged || update.transactions.some((one) => one.annotation(remote) === true)) return;
        text.doc?.transact(() => {
          let shift = 0;
          update.changes.iterChanges((from, to, _fromB, _toB, inserted) => {
            const added = inserted.sliceString(0, inserted.length, "\n");
            if (to > from) text.delete(from + shift, to - from);
            if (added !== "") text.insert(from + shift, added);
            shift += added.length - (to - from);
          });
        }, origin);
      },
      destroy: () => text.unobserve(observer),
    };
  });
}

function changesOf(delta: Delta): { from: number; to: number; insert: string }[] {
  const changes: { from: number; to: number; insert: string }[] = [];
  let at = 0;
  for (const { insert, delete: removed = 0, retain = 0 } of delta) {
    if (typeof insert === "string") changes.push({ from: at, to: at, insert });
    else if (removed > 0) changes.push({ from: at, to: at + removed, insert: "" });
    at += removed + retain;
  }
  return changes;
}

function cursors(text: Y.Text, awareness: Awareness): Extension {
  return ViewPlugin.define((view) => {
    const onChange = (_change: unknown, origin: unknown): void => {
      if (origin !== "local") setTimeout(() => view.dispatch({ effects: cursorsMoved.of(null) }));
    };
    awareness.on("change", onChange);
    const plugin = {
      decorations: RangeSet.empty as DecorationSet,
      update(update: ViewUpdate): void {
        if (update.selectionSet || update.focusChanged || update.docChanged) publish(update.view);
        const isMoved = update.docChanged ||
          update.transactions.some((one) => one.effects.some((e) => e.is(cursorsMoved)));
        if (isMoved) plugin.decorations = decorationsOf(update.view);
      },
      destroy: () => awareness.off("change", onChange),
    };
    plugin.decorations = decorationsOf(view);
    return plugin;
  }, { decorations: (plugin) => plugin.decorations });

  function publish(view: EditorView): void {
    const { anchor, head } = view.state.selection.main;
    const at = (index: number) => Y.createRelativePositionFromTypeIndex(text, index);
    const cursor = view.hasFocus ? { anchor: at(anchor), head: at(head) } : null;
    if (cursor === null && (awareness.getLocalState()?.["cursor"] ?? null) === null) return;
    awareness.setLocalStateField("cursor", cursor);
  }

  function decorationsOf(view: EditorView): DecorationSet {
    const ranges: Range<Decoration>[] = [];
    for (const [client, state] of awareness.getStates()) {
      const position = client === awareness.clientID ? undefined : positionOf(text, state["cursor"]);
      if (position === undefined) continue;
      const length = view.state.doc.length;
      const [anchor, head] = [Math.min(position.anchor, length), Math.min(position.head, length)];
      const name = String((state["user"] as { name?: unknown } | undefined)?.name ?? "");
      const [from, to] = [Math.min(anchor, head), Math.max(anchor, head)];
      if (from < to) ranges.push(Decoration.mark({ class: `remote-selection ${colorOf(name)}` }).range(from, to));
      ranges.push(Decoration.widget({ side: 1, widget: new Caret(name) }).range(head));
    }
    return Decoration.set(ranges, true);
  }
}

function positionOf(text: Y.Text, cursor: unknown): { anchor: number; head: number } | undefined {
  if (typeof cursor !== "object" || cursor === null || text.doc === null) return undefined;
  const { anchor, head } = cursor as { anchor: unknown; head: unknown };
  try {
    const [from, to] = [anchor, head].map((one) =>
      Y.createAbsolutePositionFromRelativePosition(Y.createRelativePositionFromJSON(one), text.doc as Y.Doc)
    );
    return from?.type === text && to?.type === text ? { anchor: from.index, head: to.index } : undefined;
  } catch {
    // Another editor may share something else as its cursor.
    return undefined;
  }
}

class Caret extends WidgetType {
  readonly #name: string;

  constructor(name: string) {
    super();
    this.#name = name;
  }

  override eq(other: Caret): boolean {
    return other.#name === this.#name;
  }

  override toDOM(): HTMLElement {
    const caret = document.createElement("span");
    caret.className = `remote-caret ${colorOf(this.#name)}`;
    const label = document.createElement("span");
    label.textContent = this.#name;
    caret.append(label);
    return caret;
  }
}
