// The administrator's view: what happens, who is there, and what needs a decision.
import type { ComponentType, VNode } from "preact";
import { h } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { classes, html } from "../core/html.ts";
import { route } from "../core/route.ts";
import { isAdmin, mayAdministrate } from "../core/session.ts";
import { PlaceHead } from "../part/place.ts";
import { Agents } from "./agents.ts";
import { Audit } from "./audit.ts";
import { Connections } from "./connections.ts";
import { Erasures } from "./erasures.ts";
import { Groups } from "./groups.ts";
import { Holds } from "./holds.ts";
import { Invitations } from "./invitations.ts";
import { Jobs } from "./jobs.ts";
import { Operations } from "./operations.ts";
import { Overview } from "./overview.ts";
import { Plugins } from "./plugins.ts";
import { Principals } from "./principals.ts";
import { Retention } from "./retention.ts";
import { SearchAdmin } from "./search.ts";
import { Skills } from "./skills.ts";
import { Usage } from "./usage.ts";
import { Transfers } from "./transfers.ts";
import { Webhooks } from "./webhooks.ts";

const TABS: readonly (readonly [path: string, label: string, view: ComponentType])[] = [
  ["", "Overview", Overview],
  ["people", "People", Principals],
  ["groups", "Groups", Groups],
  ["invitations", "Invitations", Invitations],
  ["agents", "Agents", Agents],
  ["connections", "Models and tools", Connections],
  ["search", "Search", SearchAdmin],
  ["skills", "Skills", Skills],
  ["plugins", "Plugins", Plugins],
  ["webhooks", "Webhooks", Webhooks],
  ["jobs", "Jobs", Jobs],
  ["transfers", "Import and export", Transfers],
  ["erasures", "Erasures", Erasures],
  ["holds", "Legal holds", Holds],
  ["retention", "Retention", Retention],
  ["usage", "Usage", Usage],
  ["audit", "Audit", Audit],
  ["api", "Any operation", Operations],
];

export default function AdminPage(): VNode {
  const [, current = ""] = route.value.path;
  const tabs = useRef<HTMLElement>(null);
  // On a narrow screen there are more of them than it shows.
  useEffect(() => tabs.current?.querySelector(".open")?.scrollIntoView({ inline: "center", block: "nearest" }), [
    current,
  ]);
  const shown = TABS.filter(([path]) => isAdmin() || path === "audit");
  const [open, , view] = shown.find(([path]) => path === current) ?? shown[0] ?? [];
  if (!mayAdministrate() || view === undefined) {
    return html`
      <${PlaceHead} title="Admin" />
      <p class="empty">This page is for administrators.</p>
    `;
  }
  return html`
    <${PlaceHead} title="Admin" />
    <nav class="tabs sub-tabs" ref=${tabs} aria-label="Admin">${shown.map(([path, label]) =>
      html`<a key=${path} href=${`#/admin${path === "" ? "" : `/${path}`}`} class=${
        classes(path === open && "open")
      } aria-current=${path === open ? "page" : undefined}>${label}</a>`
    )}</nav>
    <div class="body">
      <div class="wide">${h(view, null)}</div>
    </div>
  `;
}
