// Templates of views: tagged template literals, since browsers run no JSX.
import { h, type VNode } from "preact";
import htm from "htm";

type Template = (strings: TemplateStringsArray, ...values: unknown[]) => VNode;

/** Renders a template; values are text or nodes, never markup. The package's types describe another module format. */
export const html = (htm as unknown as { bind(create: typeof h): Template }).bind(h);

/** Class names of the conditions that hold. */
export function classes(...names: (string | false | undefined)[]): string {
  return names.filter((name) => name !== false && name !== undefined && name !== "").join(" ");
}
