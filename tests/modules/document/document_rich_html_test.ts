// HTML of rich documents: what runs code in a browser is neither stored from HTML nor written to it, whatever its source format.
import assert from "node:assert/strict";
import { Parser } from "htmlparser2";
import { renderFragment } from "@/modules/document/rendering.ts";
import { toHtml } from "@/modules/document/rich/html.ts";
import { DIALECTS, fromDialect, toDialect } from "@/modules/document/rich/dialect.ts";
import { fromHtml } from "@/modules/document/rich/html_parser.ts";
import { fromMarkdown } from "@/modules/document/rich/markdown_parser.ts";
import { parseNodes } from "@/modules/document/rich/node.ts";
import { DocumentFixture, PATH } from "./document_fixture.ts";
import { ok } from "../room/room_fixture.ts";

/** What is written: tags with the attributes that they may have. */
const ALLOWED: Readonly<Record<string, readonly string[]>> = {
  ...Object.fromEntries("p h1 h2 h3 h4 h5 h6 blockquote tr hr br table tbody div".split(" ").map((tag) => [tag, []])),
  ...Object.fromEntries("strong em s u code sub sup mark thead pre del".split(" ").map((tag) => [tag, []])),
  code: ["class"],
  a: ["href", "rel", "title"],
  img: ["src", "alt", "title"],
  ul: ["data-type"],
  ol: ["start"],
  li: ["data-type", "data-checked"],
  input: ["type", "disabled", "checked"],
  td: ["colspan", "rowspan", "style"],
  th: ["colspan", "rowspan", "style"],
};
const SAFE_URL = /^(?:(?:https?|mailto|tel|ftp|xmpp):|[^:]*$|[^:]*[/?#])/i;
const SAFE_STYLE = /^text-align:(?:left|right|center)$/;

/** Addresses that run code, as browsers read them. */
const ADDRESSES = [
  "javascript:alert(1)",
  "JaVaScRiPt:alert(1)",
  " javascript:alert(1)",
  "\u0001javascript:alert(1)",
  "java\tscript:alert(1)",
  "java\nscript:alert(1)",
  "java\rscript:alert(1)",
  "javascript&colon;alert(1)",
  "&#106;avascript:alert(1)",
  "&#x6A&#x61&#x76&#x61&#x73&#x63&#x72&#x69&#x70&#x74&#x3A;alert(1)",
  "jav&#x09;ascript:alert(1)",
  "jav&NewLine;ascript:alert(1)",
  "vbscript:msgbox(1)",
  "data:text/html,<script>alert(1)</script>",
  "data:text/html;base64,PHNjcmlwdD5hbGVydCgxKTwvc2NyaXB0Pg==",
  "data:image/svg+xml,<svg onload=alert(1)>",
  "blob:https://example.org/1",
  "filesystem:https://example.org/1",
  "view-source:javascript:alert(1)",
  "feed:javascript:alert(1)",
];
/** Elements and attributes that run code, and what confuses parsers. */
const MARKUP = [
  "<script>alert(1)</script>",
  "<SCRIPT SRC=//evil.example/x.js></SCRIPT>",
  "<scr<script>ipt>alert(1)</scr</script>ipt>",
  "<script\u0000>alert(1)</script>",
  "<script/x>alert(1)</script>",
  "<img src=x onerror=alert(1)>",
  "<img src=x onerror\u000c=alert(1)//",
  '<img """><script>alert(1)</script>">',
  "<img src=`javascript:alert(1)`>",
  "<img srcset='x 1x, javascript:alert(1) 2x'>",
  "<svg onload=alert(1)>",
  "<svg><script>alert(1)</script></svg>",
  '<svg><a xlink:href="javascript:alert(1)"><text>x</text></a></svg>',
  "<svg><style><img src=x onerror=alert(1)></style></svg>",
  "<math><mtext></form><form><mglyph><style></math><img src onerror=alert(1)>",
  '<math href="javascript:alert(1)">x</math>',
  "<body onload=alert(1)>",
  "<input autofocus onfocus=alert(1)>",
  '<input type="image" src="javascript:alert(1)">',
  "<details open ontoggle=alert(1)>x</details>",
  "<video><source onerror=alert(1)></video>",
  "<audio src=x onerror=alert(1)>",
  "<marquee onstart=alert(1)>x</marquee>",
  "<iframe src=javascript:alert(1)></iframe>",
  "<iframe srcdoc='<script>alert(1)</script>'></iframe>",
  "<object data=javascript:alert(1)></object>",
  "<embed src=javascript:alert(1)>",
  "<form action=javascript:alert(1)><button>x</button></form>",
  "<button formaction=javascript:alert(1)>x</button>",
  "<isindex action=javascript:alert(1) type=image>",
  '<meta http-equiv="refresh" content="0;url=javascript:alert(1)">',
  '<link rel="stylesheet" href="javascript:alert(1)">',
  '<base href="javascript:alert(1)//">',
  "<style>@import 'javascript:alert(1)';</style>",
  '<p style="background:url(javascript:alert(1))">x</p>',
  '<p style="behavior:url(x.htc)">x</p>',
  '<td background="javascript:alert(1)">x</td>',
  "<template><script>alert(1)</script></template>",
  "<noscript><p title='</noscript><img src=x onerror=alert(1)>'></noscript>",
  "<textarea></textarea><script>alert(1)</script>",
  "<title></title><script>alert(1)</script>",
  "<xmp><script>alert(1)</script></xmp>",
  "<plaintext><script>alert(1)</script>",
  "<!--><script>alert(1)</script>-->",
  "<!--[if gte IE 4]><script>alert(1)</script><![endif]-->",
  "<![CDATA[<script>alert(1)</script>]]>",
  "<?xml version='1.0'?><script>alert(1)</script>",
  '<a href="x" onclick="alert(1)" onmouseover=alert(1)>x</a>',
  "<a href='javascript:alert(1)'\n>x</a>",
  '<a href="https://example.org" target="_blank" ping="https://evil.example" download>x</a>',
  '<li data-checked="&quot;><script>alert(1)</script>">x</li>',
  '<pre><code class="language-x&quot; onclick=&quot;alert(1)">x</code></pre>',
  '<ol start="1 onclick=alert(1)"><li>x</li></ol>',
  '<td colspan="2 onclick=alert(1)">x</td>',
  "<p>&lt;script&gt;alert(1)&lt;/script&gt;</p>",
  "<p>&amp;lt;img src=x onerror=alert(1)&amp;gt;</p>",
  "<custom-element onclick=alert(1)>x</custom-element>",
  "<h1 onclick=alert(1) id=x class=y>x</h1>",
  "<constructor>x</constructor><valueof onclick=alert(1)>x</valueof>",
];

/** Throws unless a browser would read only what is allowed, with addresses that run nothing. */
function assertSafe(html: string, what: string): void {
  const parser = new Parser({
    onopentag(name, attributes) {
      const allowed = ALLOWED[name];
      assert.ok(allowed !== undefined, `<${name}> of ${what} in ${html}`);
      for (const [key, value] of Object.entries(attributes)) {
        assert.ok(allowed.includes(key), `${key} of ${what} in ${html}`);
        // As browsers read it: without control characters and blanks.
        if (key === "href" || key === "src") assert.match(value.replaceAll(/[\p{Cc}\s]/gu, ""), SAFE_URL, what);
        if (key === "style") assert.match(value, SAFE_STYLE, what);
      }
    },
    oncomment: (data) => assert.fail(`comment ${data} of ${what}`),
    onprocessinginstruction: (_, data) => assert.fail(`${data} of ${what}`),
  });
  parser.end(html);
}

Deno.test("nothing that runs code comes through HTML, in nodes or in HTML written from them", async () => {
  const inputs = [
    ...MARKUP,
    ...ADDRESSES.flatMap((address) => [`<a href="${address}">x</a>`, `<p><img src="${address}" alt="x"></p>`]),
  ];
  for (const input of inputs) {
    const nodes = parseNodes(await fromHtml(`<p>before</p>${input}<p>after</p>`), "");
    const attributes = JSON.stringify(nodes, (key, value) => key === "text" || key === "alt" ? undefined : value);
    assert.doesNotMatch(attributes, /alert|javascript|vbscript|onclick|onerror|data:|blob:/i, input);
    const html = toHtml(nodes);
    assertSafe(html, input);
    // And what is written is read as the same, so that nothing is hidden from the first reader only.
    assert.equal(toHtml(await fromHtml(html)), html, input);
  }
});

Deno.test("nothing that runs code comes through JSON that an editor writes", () => {
  const names = ["script", "img", "iframe", "constructor", "toString", "<script>", 'p onclick="x"', "paragraph"];
  // Names that every object inherits are names like others, in all dialects.
  for (const value of [...ADDRESSES, ...MARKUP]) {
    const text = { type: "text", text: value, marks: [{ type: "link", attrs: { href: value, onclick: value } }] };
    const attrs = { href: value, src: value, alt: value, language: value, level: value, start: value, checked: value };
    for (const type of [...names, "heading", "image", "codeBlock", "orderedList", "taskItem", "tableCell"]) {
      const nodes = parseNodes([{ type, attrs: { ...attrs, colspan: value, label: value }, content: [text] }], "");
      assertSafe(toHtml(nodes), `${type} ${value}`);
      assertSafe(toHtml(fromDialect(nodes)), `${type} ${value}`);
    }
    for (const type of names) {
      const nodes = parseNodes([{ type: "text", text: "x", marks: [{ type, attrs }] }], "");
      for (const one of [nodes, fromDialect(nodes)]) assertSafe(toHtml(one), `mark ${type} ${value}`);
    }
  }
});

Deno.test("nothing that runs code comes through Markdown, of rich documents or of texts", async () => {
  const inputs = [
    ...MARKUP,
    ...ADDRESSES.flatMap((
      address,
    ) => [`[x](<${address}>)`, `![x](<${address}>)`, `<${address}>`, `[x]\n\n[x]: ${address}`]),
    '[x](https://example.org "&quot; onclick=alert(1)")',
    "![x](https://example.org/a.png \"' onerror='alert(1)\")",
    '```js" onclick="alert(1)\nx\n```',
  ];
  for (const input of inputs) {
    assertSafe(toHtml(await fromMarkdown(input)), input);
    assertSafe(await renderFragment(input), input);
  }
});

Deno.test("nodes and marks with names that every object inherits are read in every format", async () => {
  await using fixture = await DocumentFixture.open();
  for (const type of ["constructor", "toString", "valueOf", "hasOwnProperty"]) {
    const text = { type: "text", text: "kept", marks: [{ type, attrs: { [type]: type } }] };
    const content = [{ type, attrs: { [type]: 1 }, content: [{ type: "paragraph", content: [text] }] }];
    const prosemirror = { type: "doc", content };
    const { id } = await fixture.create("", { kind: "rich", text: undefined, prosemirror });
    for (const format of ["markdown", "html", "json", "text", "prosemirror"]) {
      const body = ok(await fixture.as("member").get(`${PATH}/${id}/content?format=${format}`));
      assert.ok(JSON.stringify(body).includes("kept"), `${type} as ${format}`);
      if (format === "prosemirror") assert.deepEqual(body.prosemirror, prosemirror);
    }
    ok(await fixture.as("member").put(`${PATH}/${id}/content`, { revision: 1, html: `<${type}>kept</${type}>` }));
    assert.equal(ok(await fixture.as("member").get(`${PATH}/${id}/content?format=html`)).html, "<p>kept</p>");
    const nodes = parseNodes(content, "");
    for (const dialect of DIALECTS) assert.ok(JSON.stringify(toDialect(nodes, dialect)).includes("kept"), dialect);
  }
});
