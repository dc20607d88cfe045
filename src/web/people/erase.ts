// Asks for the erasure of a person.
import { post } from "../core/api.ts";
import { html } from "../core/html.ts";
import type { Person } from "../core/resources.ts";
import { attempt } from "../core/notice.ts";
import { myId } from "../core/session.ts";
import { closeDialog, DialogForm, openDialog } from "../part/dialog.ts";

export type Erasure = {
  id: string;
  principalId: string;
  mode: "anonymize" | "delete_content";
  dryRun: boolean;
  state: "waiting" | "running" | "done" | "cancelled";
  counts: { table: string; changed: number; deleted: number }[];
  requestedBy: string;
  dueAt: string;
  createdAt: string;
};

export const ERASURES = "v1/collaboration/erasures";
export const MODES: Readonly<Record<Erasure["mode"], string>> = {
  anonymize: "What they wrote stays, under a pseudonym",
  delete_content: "What they wrote is deleted as well",
};

/** `onChange` is called once that is requested. */
export function openErase({ id, displayName }: Person, onChange: () => void): void {
  const erase = async (fields: FormData, more: Record<string, unknown>): Promise<void> => {
    await post(ERASURES, { principalId: id, mode: fields.get("mode"), ...more });
    onChange();
  };
  /** Counts first; the dialog is not needed for that. */
  const count = ({ currentTarget }: Event): void => {
    const { form } = currentTarget as HTMLButtonElement;
    if (form === null) return;
    void attempt(async () => {
      await erase(new FormData(form), { dryRun: true });
      closeDialog();
    });
  };
  openDialog(() =>
    html`
      <${DialogForm} title=${`Erase ${displayName}`} action="Erase" isDanger onSubmit=${(fields: FormData) =>
        erase(fields, { confirm: String(fields.get("confirm")).trim() })}>
        <p>The account is signed out and disabled at once. Some days later, name, profile, memberships, reactions and personal
          facts are deleted for good, and all else names a deleted user. Until then an administrator can cancel this.</p>
        <label>Messages, comments, what was said in meetings, and what only this person sees <select name="mode">${Object
          .entries(MODES).map((
            [mode, label],
          ) => html`<option key=${mode} value=${mode}>${label}</option>`)}</select></label>
        <label><span>Repeat the id, <b>${id}</b></span> <input name="confirm" required autocomplete="off" /></label>
        ${id === myId()
          ? null
          : html`<p><button type="button" onClick=${count}>Only count what it would change</button></p>`}
        <//>
    `
  );
}
