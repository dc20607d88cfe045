// Everybody in the tenant, and the page of one of them.
import type { VNode } from "preact";
import { useEffect, useState } from "preact/hooks";
import { ApiError, get } from "../core/api.ts";
import { html } from "../core/html.ts";
import { hour, locale } from "../core/preferences.ts";
import { attempt, useLatest } from "../core/notice.ts";
import { addPeople, online } from "../core/people.ts";
import { route } from "../core/route.ts";
import type { Principal } from "../core/resources.ts";
import { isAdmin, isGuest, me, myId } from "../core/session.ts";
import { Avatar } from "../part/avatar.ts";
import { PlaceHead, Placeholder } from "../part/place.ts";
import { openDirectWith, usePrincipals } from "../room/create.ts";

export default function PeoplePage(): VNode {
  const [, id] = route.value.path;
  // Whom one sees depends on one's role.
  if (me.value === undefined) return html`<p class="empty">Loading…</p>`;
  return id === undefined ? html`<${Directory} />` : html`<${PersonPage} key=${id} id=${id} />`;
}

function Directory(): VNode {
  const [q, setQ, items, note] = usePrincipals();
  return html`
    <${PlaceHead} title="People" />
    <div class="body">
      <div class="narrow">
        <input type="search" placeholder="Find by name" aria-label="Find by name" value=${q}
          onInput=${(event: InputEvent) => setQ((event.target as HTMLInputElement).value)} />
        <ul class="rows">${items.filter(({ disabled }) => !disabled).map((person) =>
          html`<li key=${person.id}>
        <a class="person-link" href=${`#/people/${
            encodeURIComponent(person.id)
          }`}><${Avatar} id=${person.id} hasPresence />
          <span><b dir="auto">${person.displayName}</b> ${
            person.handle === null ? null : html`<span class="dim">@${person.handle}</span>`
          }
          ${
            person.status === null
              ? null
              : html`<br /><small class="dim" dir="auto">${person.status.emoji} ${person.status.text}</small>`
          }</span></a>
        ${person.kind === "human" ? null : html`<span class="tag">${person.kind}</span>`}
        ${
            person.id === myId() || isGuest()
              ? null
              : html`<button type="button" onClick=${() =>
                void attempt(() => openDirectWith(person.id))}>Message</button>`
          }
      </li>`
        )}</ul>
        ${note}
        ${isAdmin() ? html`<p><a class="button" href="#/admin/invitations">Invite people</a></p>` : null}
      </div>
    </div>
  `;
}

function PersonPage({ id }: { id: string }): VNode {
  const [person, setPerson] = useState<Principal>();
  const [isMissing, setMissing] = useState(false);
  const read = useLatest(
    () =>
      get<Principal>(`v1/collaboration/principals/${encodeURIComponent(id)}`).catch((error) => {
        setMissing(!(error instanceof ApiError && error.isTemporary));
        throw error;
      }),
    (person) => {
      addPeople([person]);
      setPerson(person);
    },
  );
  useEffect(read, [id]);
  return html`
    <${PlaceHead} title=${person?.displayName ?? "Profile"} />
    <div class="body">
      <div class="narrow">${person === undefined
        ? isMissing ? html`<p class="empty">This person is not available.</p>` : html`<${Placeholder} read=${read} />`
        : html`
          <div class="card">
            <div class="row"><span class="large-avatar"><${Avatar} id=${id} hasPresence /></span>
              <div><h1 dir="auto">${person.displayName}</h1>
                <p class="dim">${person.handle === null ? person.id : `@${person.handle}`} · ${person
                  .role}${person.kind === "human" ? "" : ` · ${person.kind}`}</p></div></div>
            ${person.status === null ? null : html`<p dir="auto">${person.status.emoji} ${person.status.text}</p>`}
            <p class="dim">${online.value.has(id) ? "Online now" : "Not online"}${person.timeZone === null
              ? ""
              : ` · ${localTime(person.timeZone)}`}</p>
            <p class="row">${id === myId()
              ? html`<a class="button" href="#/profile">Edit profile</a>`
              : isGuest()
              ? null
              : html`
                <button type="button" class="primary" onClick=${() =>
                  void attempt(() => openDirectWith(id))}>Message</button>
              `}</p>
          </div>
        `}</div>
    </div>
  `;
}

function localTime(timeZone: string): string {
  return new Intl.DateTimeFormat(locale, { timeZone, ...hour, minute: "2-digit", timeZoneName: "short" })
    .format(new Date());
}
