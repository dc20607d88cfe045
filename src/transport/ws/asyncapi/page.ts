// `/docs/events`: the AsyncAPI document as an HTML page without scripts.
import { createHash } from "node:crypto";
import { runInSlices, type Steps } from "@/core/caller.ts";
import { escapeHtml } from "@/core/text/text.ts";
import type { Route } from "@/core/http/route.ts";
import { assetRoute, StaticAsset } from "../../shared/static_asset.ts";
import { asyncapiDocument, type AsyncDocumentSource, SOCKET_ADDRESS } from "./document.ts";
import type { Limit, Tables } from "./table.ts";
import { STYLE } from "./page_style.ts";
import { fieldsHtml, namesIn, proseHtml, type Schema, typeHtml } from "./schema_html.ts";

type Message = { name: string; summary: string; payload: Schema; "x-scope"?: string };
type Channel = {
  address: string;
  title: string;
  description: string;
  messages: Record<string, { $ref: string }>;
  "x-presence-max"?: number;
};
type Operation = { action: string; summary: string; description: string; tags?: { name: string }[] };
/** The parts of the document that the page shows. */
type Document = Tables & {
  info: { title: string; version: string; description: string };
  channels: Record<string, Channel>;
  operations: Record<string, Operation>;
  components: { messages: Record<string, Message>; schemas: Record<string, Schema> };
};
type Section = { id: string; title: string; body: string };

const STYLE_HASH = createHash("sha256").update(STYLE).digest("base64");
const POLICY = `default-src 'none'; style-src 'sha256-${STYLE_HASH}'; img-src 'self'; base-uri 'none'; ` +
  "form-action 'none'; frame-ancestors 'none'";

/** The route that serves the page, generated at first use. */
export function eventsPageRoute(source: AsyncDocumentSource): Route {
  const asset = new StaticAsset("text/html; charset=utf-8", () => runInSlices(eventsPage(source)), {
    headers: { "Content-Security-Policy": POLICY },
  });
  return assetRoute({
    name: "docs.events",
    summary: "Read the documentation of events, close codes and limits of `/ws`",
    path: "/docs/events",
    description: "Documentation page",
  }, asset);
}

/** Every reference is relative, so the page also works behind a path prefix. */
function* eventsPage(source: AsyncDocumentSource): Steps<string> {
  const document: Document = JSON.parse(yield* asyncapiDocument(source));
  const { info } = document;
  yield;
  const sections = [
    connecting(),
    ...streamsOf(document).map(([name, channel]) => channelSection(document, name, channel)),
    presence(document),
    commands(document),
    closeCodes(document),
    errorCodes(document),
    limits(document),
    types(document),
  ];
  const contents = sections.map(({ id, title }) => `<li><a href="#${id}">${escapeHtml(title)}</a></li>`).join("");
  const body = sections.map(({ id, title, body }) =>
    `<section><h2 id="${id}">${escapeHtml(title)}</h2>${body}</section>`
  );
  const paragraphs = info.description.split("\n\n").map((text) => `<p>${proseHtml(text)}</p>`).join("");
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Realtime API: events, codes and limits</title>
<link rel="icon" href="favicon.svg" type="image/svg+xml">
<style>${STYLE}</style>
</head>
<body>
<header><nav aria-label="Documentation"><strong>Collaboration Gateway</strong>
<a href="../">Web client</a><a href="../docs">HTTP API</a><a href="../asyncapi.json">asyncapi.json</a><a href="../openapi.json">openapi.json</a></nav></header>
<div class="page">
<nav class="toc" aria-label="Contents"><ul>${contents}</ul></nav>
<main>
<h1>Realtime API</h1>
<p class="soft">Version ${escapeHtml(info.version)}</p>
${paragraphs}
${body.join("\n")}
</main>
</div>
</body>
</html>
`;
}

function connecting(): Section {
  const frames = [
    [{ id: 1, connect: { token: "<access token>" } }, {
      id: 1,
      connect: { client: "…", ping: 25, pong: true, data: "…" },
    }],
    [{ id: 2, subscribe: { channel: "room:<id>" } }, {
      id: 2,
      subscribe: { recoverable: true, positioned: true, epoch: "…", offset: 41 },
    }],
    [{ id: 3, rpc: { method: "message.send", data: { roomId: "<id>", text: "Hello" } } }, {
      id: 3,
      rpc: { data: "…" },
    }],
  ];
  const lines = frames.flatMap(([sent, received]) => [`→ ${JSON.stringify(sent)}`, `← ${JSON.stringify(received)}`]);
  const event = { push: { channel: "room:<id>", pub: { data: { type: "message.created", data: "…" }, offset: 42 } } };
  return {
    id: "connecting",
    title: "Connect, subscribe, call",
    body: `<p>One JSON object per line:</p>` +
      `<pre tabindex="0"><code>${escapeHtml([...lines, `← ${JSON.stringify(event)}`].join("\n"))}</code></pre>` +
      `<p>Every operation of the <a href="../docs">HTTP API</a> is also an <code>rpc</code> method with the same name, ` +
      `with path, query and body merged into <code>data</code>.</p>`,
  };
}

function channelSection(document: Document, name: string, channel: Channel): Section {
  const messages = messagesOf(document, channel).filter((message) => !message.name.endsWith(".publish"));
  const isEvent = (message: Message): boolean => message["x-scope"] !== undefined;
  const events = messages.filter(isEvent).map(eventHtml).join("");
  const isPublished = (message: Message): boolean => `${message.name}.publish` in channel.messages;
  const unstored = messages.filter((message) => !isEvent(message));
  const ephemeral = unstored.filter(isPublished).map(eventHtml).join("");
  const notices = unstored.filter((message) => !isPublished(message)).map(eventHtml).join("");
  return {
    id: `channel-${name}`,
    title: `Channel ${channel.address}`,
    body: `<p>${proseHtml(channel.title)}. ${proseHtml(channel.description)}</p>` +
      (events === "" ? "" : `<h3>Events</h3>${events}`) +
      (notices === "" ? "" : `<h3>Published by the gateway, not stored</h3>${notices}`) +
      (ephemeral === "" ? "" : `<h3>Published by clients, not stored</h3>${ephemeral}`),
  };
}

function eventHtml({ name, summary, payload, "x-scope": scope }: Message): string {
  const data = payload.properties?.["push"]?.properties?.["pub"]?.properties?.["data"]?.properties?.["data"] ?? {};
  const fields = fieldsHtml(data);
  const requirement = scope === undefined
    ? ""
    : `<p class="soft">Requires the scope <code>${escapeHtml(scope)}</code></p>`;
  return `<details><summary><code>${escapeHtml(name)}</code> <span class="soft">${
    proseHtml(summary)
  }</span></summary>` +
    `${requirement}${fields === "" ? `<p><code class="type">${typeHtml(data)}</code></p>` : fields}</details>`;
}

function presence({ channels }: Document): Section {
  const served = Object.values(channels).filter((channel) => (channel["x-presence-max"] ?? 0) > 0)
    .map((channel) => `<code>${escapeHtml(channel.address)}</code> up to ${channel["x-presence-max"]} subscribers`);
  return {
    id: "presence",
    title: "Presence, typing and read positions",
    body: `<p>Presence is available for ${served.join(", ")}: <code>presence</code> lists the subscribed clients and ` +
      `<code>presence_stats</code> counts them; both require a subscription. Subscribe with ` +
      `<code>"join_leave":true</code> to receive <code>join</code> and <code>leave</code>. In larger channels both commands ` +
      `fail with error 108. Guests of the tenant see only the presence of principals that they share a room with.</p>` +
      `<p>The member list of a room includes the read positions of other members, and <code>member.read</code> is published ` +
      `when one changes, in rooms with at most that many members. A member who sets <code>readReceipts</code> to false with ` +
      `<code>me.update</code> neither shares its position nor receives those of others.</p>` +
      `<p>Typing is published by clients and not stored: show it for a few seconds, and publish it again while the user types.</p>` +
      `<pre tabindex="0"><code>${
        escapeHtml(
          JSON.stringify({
            id: 4,
            publish: { channel: "room:<id>", data: { type: "typing", data: { typing: true } } },
          }),
        )
      }</code></pre>`,
  };
}

function commands({ operations }: Document): Section {
  const own = Object.entries(operations).filter(([, { tags = [] }]) => tags.some(({ name }) => name === "protocol"));
  return {
    id: "commands",
    title: "Commands",
    body: table(
      ["Command", "What it does"],
      own.map(([name, { summary, description }]) => [code(name), proseHtml(`${summary}. ${description}`)]),
    ),
  };
}

function closeCodes(document: Document): Section {
  const closes = document["x-close-codes"].map(({ code: number, reason, reconnect, description }) => [
    code(String(number)),
    escapeHtml(reason),
    reconnect ? "reconnect" : "do not reconnect",
    proseHtml(description),
  ]);
  const ends = document["x-unsubscribe-codes"].map(({ code: number, resubscribe, description }) => [
    code(String(number)),
    resubscribe ? "subscribe again" : "final",
    proseHtml(description),
  ]);
  return {
    id: "close-codes",
    title: "Close codes",
    body: table(["Code", "Reason", "Then", "When"], closes) +
      `<h3>Codes of an unsubscribe push</h3>${table(["Code", "Then", "When"], ends)}`,
  };
}

function errorCodes(document: Document): Section {
  const rows = document["x-error-codes"].map(({ code: number, message, temporary, description }) => [
    code(String(number)),
    escapeHtml(message),
    temporary ? "retry later" : "do not retry unchanged",
    proseHtml(description),
  ]);
  return {
    id: "error-codes",
    title: "Error codes",
    body: `<p>Errors of the protocol. A failed operation has its HTTP status as code and ` +
      `<code>&lt;problem code&gt;: &lt;detail&gt;</code> as message.</p>` +
      table(["Code", "Message", "Then", "When"], rows),
  };
}

function limits(document: Document): Section {
  const rows = document["x-limits"].map(({ name, value, description }) => [
    code(name),
    valueHtml(value),
    proseHtml(description),
  ]);
  return { id: "limits", title: "Limits", body: table(["Name", "Value", "Meaning"], rows) };
}

/** The schemas that the shown messages refer to. */
function types(document: Document): Section {
  const { components: { schemas } } = document;
  const names = new Set<string>();
  for (const [, channel] of streamsOf(document)) {
    for (const { payload } of messagesOf(document, channel)) namesIn(payload, schemas, names);
  }
  const entries = [...names].sort().map((name) => {
    const schema = schemas[name] ?? {};
    const fields = fieldsHtml(schema);
    const text = schema.description === undefined ? "" : `<p>${proseHtml(schema.description)}</p>`;
    return `<details id="type-${escapeHtml(name)}"><summary><code>${escapeHtml(name)}</code></summary>${text}` +
      `${fields === "" ? `<p><code class="type">${typeHtml(schema)}</code></p>` : fields}</details>`;
  });
  return { id: "types", title: "Types", body: entries.join("") };
}

/** The channels within the socket. */
function streamsOf({ channels }: Document): [string, Channel][] {
  return Object.entries(channels).filter(([, { address }]) => address !== SOCKET_ADDRESS);
}

function messagesOf({ components }: Document, { messages }: Channel): Message[] {
  return Object.values(messages).flatMap(({ $ref }) =>
    components.messages[$ref.slice($ref.lastIndexOf("/") + 1)] ?? []
  );
}

function valueHtml(value: Limit["value"]): string {
  return typeof value === "number"
    ? value.toLocaleString("en")
    : `${value.perSecond.toLocaleString("en")} a second, burst of ${value.burst.toLocaleString("en")}`;
}

function table(titles: readonly string[], rows: readonly (readonly string[])[]): string {
  const head = titles.map((title) => `<th scope="col">${title}</th>`).join("");
  const body = rows.map((cells) =>
    `<tr>${cells.map((cell, at) => `<td${at === 0 ? "" : ` data-label="${titles[at]}"`}>${cell}</td>`).join("")}</tr>`
  );
  return `<table><thead><tr>${head}</tr></thead><tbody>${body.join("")}</tbody></table>`;
}

function code(text: string): string {
  return `<code>${escapeHtml(text)}</code>`;
}
