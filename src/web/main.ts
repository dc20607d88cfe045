// The entry of the browser client.
import { render } from "preact";
import { App } from "./app.ts";
import { html } from "./core/html.ts";
import { preferences } from "./core/preferences.ts";
import { dropToken } from "./core/session.ts";
import { code } from "./sign_in.ts";

document.documentElement.style.colorScheme = preferences.theme ?? "";
const root = document.getElementById("app");
// A sign-in address replaces the session of this tab.
if (code !== undefined && code.kind !== "failed") dropToken();
if (root !== null) render(html`<${App} />`, root);
