// The place of a document's editor, which is loaded with its libraries when the first document of its kind is opened.
import type { ComponentType, VNode } from "preact";
import { useEffect, useState } from "preact/hooks";
import { html } from "../core/html.ts";
import { connection } from "../core/live.ts";
import { attempt } from "../core/notice.ts";
import type { Editor, EditorStatus } from "./connection.ts";
import type { Document } from "./documents.ts";

export type FrameProps = {
  id: string;
  fragment: string | null;
  isReadOnly: boolean;
  editor: { current: Editor | undefined };
  onStatus: (status: EditorStatus) => void;
};

export function EditorFrame({ kind, ...props }: FrameProps & { kind: Document["kind"] }): VNode {
  const [frame, setFrame] = useState<{ component: ComponentType<FrameProps> }>();
  useEffect(() =>
    void attempt(async () =>
      setFrame({
        component: kind === "rich"
          ? (await import("./rich/frame.ts")).RichFrame
          : (await import("./editor.ts")).TextFrame,
      })
      // Again with the next connection: it may have been opened without one.
    ), [kind, connection.value === "connected"]);
  return frame === undefined ? html`<p class="empty">Loading…</p>` : html`<${frame.component} ...${props} />`;
}

/** Opens an editor for as long as its document is shown. A lock does not close it: cursor and undo would be lost. */
export function useEditor({ editor, isReadOnly }: FrameProps, open: () => Editor, inputs: readonly unknown[]): void {
  useEffect(() => {
    editor.current = open();
    return () => {
      editor.current?.close();
      editor.current = undefined;
    };
  }, inputs);
  useEffect(() => editor.current?.setReadOnly(isReadOnly), [...inputs, isReadOnly]);
}
