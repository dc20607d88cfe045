// Modules of npm packages that the browser client imports, by the name it imports them by. They are text imports, so they are
// part of the program: nothing is fetched when they are served.
import { EDITOR_PACKAGES } from "./editor_packages.ts";
import { RICH_PACKAGES } from "./rich_packages.ts";

type Load = () => Promise<{ default: string }>;

/** Loaded with the page. */
const FIRST: Readonly<Record<string, Load>> = {
  "preact": () => import("preact", { with: { type: "text" } }),
  "preact/hooks": () => import("preact/hooks", { with: { type: "text" } }),
  "@preact/signals": () => import("@preact/signals", { with: { type: "text" } }),
  "@preact/signals-core": () => import("@preact/signals-core", { with: { type: "text" } }),
  "htm": () => import("htm", { with: { type: "text" } }),
  "centrifuge": () => import("centrifuge", { with: { type: "text" } }),
  "marked": () => import("marked", { with: { type: "text" } }),
};

export const PACKAGES: ReadonlyMap<string, Load> = new Map(
  Object.entries({ ...FIRST, ...EDITOR_PACKAGES, ...RICH_PACKAGES }),
);

/** The file name of a package's module. */
export function packageFile(name: string): string {
  return `${name.replace("@", "").replaceAll("/", "-").replace(/\.js$/, "")}.js`;
}
