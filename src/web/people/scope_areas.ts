// Scopes in plain words: what an application may read, write and manage, by area.

export const LEVELS = ["Read", "Write", "Manage"] as const;
type Level = (typeof LEVELS)[number];
/** An area, and its scopes by level. */
export type Area = { label: string; scopes: ReadonlyMap<Level, readonly string[]> };

/** Areas by the first word of their scopes. */
const AREAS: readonly (readonly [label: string, words: readonly string[]])[] = [
  ["Messages", ["message", "command"]],
  ["Rooms", ["room", "permission"]],
  ["Search", ["search"]],
  ["Notifications", ["notification"]],
  ["Tasks", ["task"]],
  ["Documents", ["document"]],
  ["Files", ["file"]],
  ["Calendar", ["calendar"]],
  ["Calls", ["meeting"]],
  ["People", ["principal"]],
  ["Agents", ["agent", "run", "skill", "memory"]],
  ["Language models, at your team's cost", ["ai"]],
  ["Webhooks and plugins", ["webhook", "plugin"]],
  ["Your team and its data", ["tenant", "capabilities", "transfer"]],
];

/** The areas of these scopes: each scope is in one of them, also one that is not known here. */
export function areasOf(scopes: readonly string[]): Area[] {
  const byArea = Map.groupBy(scopes, labelOf);
  const order = [...AREAS.map(([label]) => label), ...byArea.keys()];
  return [...new Set(order)].flatMap((label) => {
    const own = byArea.get(label);
    return own === undefined ? [] : [{ label, scopes: Map.groupBy(own, levelOf) }];
  });
}

function labelOf(scope: string): string {
  const word = scope.split(".", 1)[0] ?? "";
  return AREAS.find(([, words]) => words.includes(word))?.[0] ?? word;
}

function levelOf(scope: string): Level {
  return scope.endsWith(".read") ? "Read" : scope.endsWith(".write") ? "Write" : "Manage";
}
