// The entry of the browser client.
import { render } from "preact";
import { App } from "./app.ts";
import { html } from "./core/html.ts";
import { preferences } from "./core/preferences.ts";

document.documentElement.style.colorScheme = preferences.theme ?? "";
const root = document.getElementById("app");
if (root !== null) render(html`<${App} />`, root);
