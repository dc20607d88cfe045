// The style of the events page: responsive, light and dark.

export const STYLE = `
:root {
  color-scheme: light dark;
  --text: light-dark(#1c2128, #d6dde6);
  --soft: light-dark(#57606a, #9aa6b4);
  --page: light-dark(#ffffff, #14181d);
  --raised: light-dark(#f4f6f8, #1d232a);
  --line: light-dark(#d8dee4, #323b45);
  --link: light-dark(#0b57d0, #7cb4ff);
  --mono: ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace;
}
* { box-sizing: border-box }
html { scroll-padding-top: 1rem; -webkit-text-size-adjust: 100% }
body {
  margin: 0; background: var(--page); color: var(--text);
  font: 16px/1.6 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif;
  overflow-wrap: anywhere;
}
a { color: var(--link); text-decoration-thickness: 1px; text-underline-offset: .18em }
header { border-bottom: 1px solid var(--line); background: var(--raised) }
header nav { max-width: 74rem; margin: auto; padding: .75rem 1.25rem; display: flex; flex-wrap: wrap; gap: .25rem 1.5rem }
header nav strong { margin-right: auto }
.page { max-width: 74rem; margin: auto; padding: 0 1.25rem 4rem }
main { min-width: 0; max-width: 52rem }
h1 { font-size: clamp(1.7rem, 1.3rem + 2vw, 2.4rem); line-height: 1.2; letter-spacing: -.015em; margin: 2rem 0 1rem }
h2 { font-size: 1.45rem; line-height: 1.25; margin: 3rem 0 .75rem; padding-top: 1rem; border-top: 1px solid var(--line) }
h3 { font-size: 1.1rem; margin: 2rem 0 .5rem }
p, ul { margin: .75rem 0 }
p { max-width: 42rem }
code, pre { font-family: var(--mono); font-size: .875em; font-variant-ligatures: none }
code { background: var(--raised); border-radius: 4px; padding: .1em .3em }
pre { background: var(--raised); border: 1px solid var(--line); border-radius: 8px; padding: .9rem 1rem; overflow-x: auto; overflow-wrap: normal; line-height: 1.5 }
pre code { background: none; padding: 0; font-size: inherit }
code.type { background: none; color: var(--soft); padding: 0 }
.soft { color: var(--soft) }
.toc { padding-top: 1rem }
.toc ul { list-style: none; padding: 0; margin: 0 }
.toc li { margin: .3rem 0 }
.toc a { text-decoration: none }
.toc a:hover { text-decoration: underline }
table { width: 100%; border-collapse: collapse; margin: 1rem 0 }
th { text-align: left; font-size: .8rem; font-weight: 600; color: var(--soft) }
th, td { padding: .5rem .75rem .5rem 0; border-bottom: 1px solid var(--line); vertical-align: top; overflow-wrap: break-word }
td:first-child { white-space: nowrap; font-variant-numeric: tabular-nums }
details { border-bottom: 1px solid var(--line); padding: .55rem 0 }
details > summary { cursor: pointer }
details > summary:hover code { text-decoration: underline }
details > summary .soft { display: block; padding-left: 1.1rem }
details > :not(summary) { margin-left: 1.1rem }
dl { margin: .5rem 0 .75rem }
dt { margin-top: .4rem }
dd { margin: 0 0 0 1rem; color: var(--soft); font-size: .94rem }
dd:empty { display: none }
@media (max-width: 40rem) {
  body { font-size: 15.5px }
  thead { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%) }
  table, tbody, tr, td { display: block }
  tr { padding: .6rem 0; border-bottom: 1px solid var(--line) }
  td { border: 0; padding: .1rem 0 }
  td:first-child { white-space: normal; font-weight: 600 }
  td[data-label]::before { content: attr(data-label) ": "; color: var(--soft); font-size: .85rem }
}
@media (min-width: 64rem) {
  .page { display: grid; grid-template-columns: 13rem minmax(0, 1fr); gap: 3.5rem }
  .toc { position: sticky; top: 0; align-self: start; max-height: 100vh; overflow-y: auto; padding: 2.5rem 0 2rem; font-size: .93rem }
}
@media print { header, .toc { display: none } }
`;
