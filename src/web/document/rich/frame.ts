// The rich editor with its toolbar.
import type { VNode } from "preact";
import { useRef, useState } from "preact/hooks";
import { redo, undo } from "@tiptap/y-tiptap";
import type { NodeType, Schema } from "prosemirror-model";
import { liftListItem, sinkListItem } from "prosemirror-schema-list";
import type { Command, EditorState } from "prosemirror-state";
import { addColumnAfter, addRowAfter, deleteColumn, deleteRow, deleteTable, isInTable } from "prosemirror-tables";
import type { EditorView } from "prosemirror-view";
import { html } from "../../core/html.ts";
import { PICTURE_TYPES } from "../../message/files.ts";
import { DialogForm, openDialog } from "../../part/dialog.ts";
import {
  enclosing,
  insertRule,
  insertTable,
  isBlock,
  isMarked,
  linkAt,
  setLink,
  toggle,
  toggleBlock,
  toggleList,
  toggleQuote,
} from "./commands.ts";
import { type FrameProps, useEditor } from "../frame.ts";
import { openRichEditor } from "./editor.ts";
import { addPictures } from "./pictures.ts";
import { isSafeLink } from "./schema.ts";

type Tool = { label: string; path: string; run: Command; isActive?: boolean };

/** Where the content of a document will be that has none yet. */
const DEFAULT_FRAGMENT = "default";

export function RichFrame(props: FrameProps): VNode {
  const { id, onStatus } = props;
  const fragment = props.fragment ?? DEFAULT_FRAGMENT;
  const parent = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView | undefined>(undefined);
  const [state, setState] = useState<EditorState>();
  const openLink = (): void => void (view.current !== undefined && askForLink(view.current));
  useEditor(props, () =>
    openRichEditor({
      id,
      fragment,
      parent: parent.current as HTMLDivElement,
      onStatus,
      openLink,
      onUpdate: (current) => {
        view.current = current;
        setState(current.editable ? current.state : undefined);
      },
    }), [id, fragment]);

  const picker = useRef<HTMLInputElement>(null);
  function addFiles({ target }: Event): void {
    const input = target as HTMLInputElement;
    const current = view.current;
    if (current !== undefined) addPictures(current, [...input.files ?? []], current.state.selection.from);
    input.value = "";
  }
  function run(command: Command): void {
    const current = view.current;
    if (current === undefined) return;
    command(current.state, current.dispatch, current);
    current.focus();
  }
  return html`
    ${state === undefined ? null : html`
      <div class="tools" role="toolbar" aria-label="Formatting">
        <input ref=${picker} type="file" multiple hidden accept=${PICTURE_TYPES.join(",")} onChange=${addFiles} />
        ${toolsOf(state, openLink, () => picker.current?.click()).map((
          { label, path, run: command, isActive = false },
        ) =>
          html`
            <button type="button" key=${label} class="plain" aria-label=${label} title=${label} aria-pressed=${isActive}
              onMouseDown=${(event: Event) => event.preventDefault()} onClick=${() => run(command)}>
                        <svg class="icon" viewBox="0 0 24 24" aria-hidden="true"><path d=${path} /></svg></button>
          `
        )}
      </div>
    `}
    <div class="editor rich text" ref=${parent}></div>
  `;
}

function toolsOf(state: EditorState, openLink: () => void, openPicker: () => void): Tool[] {
  const { schema } = state;
  return [
    ...[1, 2, 3].map((level) => heading(state, level)),
    mark(state, "bold", "Bold", "M7 4h6a4 4 0 0 1 0 8H7zM7 12h7a4 4 0 0 1 0 8H7z"),
    mark(state, "italic", "Italic", "M10 4h8M6 20h8M14 4l-4 16"),
    mark(state, "underline", "Underline", "M7 4v7a5 5 0 0 0 10 0V4M6 20h12"),
    mark(state, "strike", "Strikethrough", "M4 12h16M17 7c-1-2-3-3-5-3-5 0-6 5-2 7M7 17c1 2 3 3 5 3 5 0 6-4 4-6"),
    mark(state, "code", "Code", "M8 7l-5 5 5 5M16 7l5 5-5 5"),
    {
      label: "Link",
      path: "M10 14a4 4 0 0 0 6 0l3-3a4 4 0 0 0-6-6l-1 1M14 10a4 4 0 0 0-6 0l-3 3a4 4 0 0 0 6 6l1-1",
      isActive: isMarked(state, "link"),
      run: () => {
        openLink();
        return true;
      },
    },
    list(state, "bulletList", "listItem", "Bulleted list", "M9 6h11M9 12h11M9 18h11M4 6h.01M4 12h.01M4 18h.01"),
    list(
      state,
      "orderedList",
      "listItem",
      "Numbered list",
      "M10 6h10M10 12h10M10 18h10M4 4l1.500-1v5M4 12h2.500L4 16h3M4 19h3v3H4",
    ),
    list(state, "taskList", "taskItem", "Task list", "M11 7h9M11 17h9M3 7l2 2 3-4M3 17l2 2 3-4"),
    ...isIn(state, "list") ? nesting(schema, isIn(state, "taskItem") ? "taskItem" : "listItem") : [],
    {
      label: "Quote",
      path: "M5 5v14M10 8h9M10 12h9M10 16h5",
      isActive: isIn(state, "blockquote"),
      run: toggleQuote(node(schema, "blockquote")),
    },
    {
      label: "Code block",
      path: "M4 5h16v14H4zM9 10l-2 2 2 2M15 10l2 2-2 2",
      isActive: isBlock(state, schema.nodes["codeBlock"]),
      run: toggleBlock(node(schema, "codeBlock")),
    },
    { label: "Divider", path: "M4 12h16", run: insertRule(node(schema, "horizontalRule")) },
    ...isInTable(state) ? TABLE_TOOLS : [{
      label: "Table",
      path: "M4 5h16v14H4zM4 10h16M4 14.500h16M12 5v14",
      run: insertTable(schema),
    }],
    {
      label: "Picture",
      path: "M4 5h16v14H4zM4 16l5-5 4 4 3-3 4 4M15.500 9h.01",
      run: () => {
        openPicker();
        return true;
      },
    },
    { label: "Undo", path: "M9 7L4 12l5 5M4 12h9a6 6 0 0 1 6 6", run: (state) => undo(state) ?? true },
    { label: "Redo", path: "M15 7l5 5-5 5M20 12h-9a6 6 0 0 0-6 6", run: (state) => redo(state) ?? true },
  ];
}

const TABLE_TOOLS: readonly Tool[] = [
  { label: "Add row", path: "M4 4h16v8H4zM12 4v8M12 15v6M9 18h6", run: addRowAfter },
  { label: "Add column", path: "M4 4h8v16H4zM4 12h8M15 12h6M18 9v6", run: addColumnAfter },
  { label: "Delete row", path: "M4 4h16v8H4zM12 4v8M9 18h6", run: deleteRow },
  { label: "Delete column", path: "M4 4h8v16H4zM4 12h8M15 12h6", run: deleteColumn },
  { label: "Delete table", path: "M4 5h16v14H4zM8 9l8 6M16 9l-8 6", run: deleteTable },
];

function heading(state: EditorState, level: number): Tool {
  const type = node(state.schema, "heading");
  const digit = ["M17 10l3-2v10", "M16 10c0-3 5-3 5 0 0 2-5 5-5 8h5", "M16 9c2-3 6 0 3 3 4 1 1 7-3 4"][level - 1] ?? "";
  return {
    label: `Heading ${level}`,
    path: `M4 5v14M12 5v14M4 12h8${digit}`,
    isActive: isBlock(state, type, { level }),
    run: toggleBlock(type, { level }),
  };
}

function mark(state: EditorState, name: string, label: string, path: string): Tool {
  return { label, path, isActive: isMarked(state, name), run: toggle(state.schema, name) };
}

function list(state: EditorState, name: string, item: string, label: string, path: string): Tool {
  const found = enclosing(state, ({ type }) => type.isInGroup("list"));
  return {
    label,
    path,
    isActive: found?.node.type.name === name,
    run: toggleList(node(state.schema, name), node(state.schema, item)),
  };
}

function nesting(schema: Schema, item: string): Tool[] {
  return [
    {
      label: "Move out",
      path: "M4 5h16M10 10h10M10 14h10M4 19h16M7 9l-3 3 3 3",
      run: liftListItem(node(schema, item)),
    },
    { label: "Move in", path: "M4 5h16M10 10h10M10 14h10M4 19h16M4 9l3 3-3 3", run: sinkListItem(node(schema, item)) },
  ];
}

/** Whether the selection is in a node of this name or group. */
function isIn(state: EditorState, name: string): boolean {
  return enclosing(state, ({ type }) => type.name === name || type.isInGroup(name)) !== undefined;
}

function node(schema: Schema, name: string): NodeType {
  return schema.nodes[name] as NodeType;
}

function askForLink(view: EditorView): void {
  const link = linkAt(view.state);
  const hasText = !view.state.selection.empty || link !== undefined;
  openDialog(() =>
    html`
      <${DialogForm} title="Link" action="Apply" onSubmit=${(fields: FormData) => {
        const href = String(fields.get("href")).trim();
        if (href !== "" && !isSafeLink(href)) throw new Error("Links begin with https://, http:// or mailto:");
        setLink(href, String(fields.get("text") ?? "").trim() || href)(view.state, view.dispatch);
        setTimeout(() => view.focus());
        return Promise.resolve();
      }}>
        <label>Address <input name="href" value=${link?.href ??
          "https://"} maxlength="2000" autocomplete="off" autofocus /></label>
        ${hasText ? null : html`<label>Text <input name="text" maxlength="500" autocomplete="off" /></label>`}
        ${link === undefined ? null : html`<p class="dim">Without an address the link is removed.</p>`}
      <//>
    `
  );
}
