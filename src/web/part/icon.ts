// Icons: lines on a grid of 24, in the color of the text.
import type { VNode } from "preact";
import { html } from "../core/html.ts";

const PATHS = {
  add: "M12 5v14M5 12h14",
  back: "M15 5l-7 7 7 7",
  bell: "M6 16V11a6 6 0 0 1 12 0v5l2 2H4zM10 21h4",
  bookmark: "M6 4h12v16l-6-5-6 5z",
  bot: "M5 9h14v10H5zM12 9V5M9 14h.01M15 14h.01M9 17h6",
  calendar: "M4 6h16v14H4zM4 10h16M8 3v4M16 3v4",
  chat: "M4 5h16v11H10l-5 4v-4H4z",
  check: "M5 12l5 5L19 7",
  clip:
    "M20 11l-8 8a5 5 0 0 1-7-7l8.500-8.500a3.300 3.300 0 0 1 4.700 4.700L10 16.500a1.700 1.700 0 0 1-2.400-2.400L15 7",
  clock: "M12 3a9 9 0 1 0 .01 0M12 7v5l3 3",
  close: "M6 6l12 12M18 6L6 18",
  document: "M6 3h8l5 5v13H6zM14 3v5h5M9 13h7M9 17h7",
  down: "M6 9l6 6 6-6",
  edit: "M4 20h4L19 9l-4-4L4 16z",
  exit: "M14 4h5v16h-5M15 12H4M8 8l-4 4 4 4",
  gear:
    "M12 9a3 3 0 1 0 .01 0M12 3v3M12 18v3M3 12h3M18 12h3M5.600 5.600l2.100 2.100M16.300 16.300l2.100 2.100M5.600 18.400l2.100-2.100M16.300 7.700l2.100-2.100",
  hand:
    "M7 12V6.500a1.500 1.500 0 0 1 3 0V11V4.500a1.500 1.500 0 0 1 3 0V11V6a1.500 1.500 0 0 1 3 0v8c0 4-2 7-5 7s-5-2-6.500-5L3.500 13a1.500 1.500 0 0 1 2.500-1z",
  hash: "M9 4L7 20M17 4l-2 16M4 9h16M3 15h16",
  link: "M10 14a4 4 0 0 0 6 0l3-3a4 4 0 0 0-6-6l-1 1M14 10a4 4 0 0 0-6 0l-3 3a4 4 0 0 0 6 6l1-1",
  lock: "M6 11h12v9H6zM9 11V8a3 3 0 0 1 6 0v3",
  mic: "M9 4h6v9H9zM6 11v2a6 6 0 0 0 12 0v-2M12 19v3",
  more: "M6 12h.01M12 12h.01M18 12h.01",
  people:
    "M9 11a3.500 3.500 0 1 0-.01 0M2.500 20c.5-4 3-6 6.500-6s6 2 6.500 6M16 11a3 3 0 1 0-1-5.500M18 14c2 .7 3.200 2.600 3.500 6",
  phone: "M5 4h4l2 5-2.500 1.500a11 11 0 0 0 5 5L15 13l5 2v4a1 1 0 0 1-1 1A15 15 0 0 1 4 5a1 1 0 0 1 1-1z",
  pin: "M9 4h6l-1 6 3 3H7l3-3zM12 13v7",
  reply: "M9 7L4 12l5 5M4 12h9a7 7 0 0 1 7 7",
  screen: "M3 5h18v11H3zM8 20h8M12 16v4",
  search: "M11 5a6 6 0 1 0 .01 0M20 20l-4.700-4.700",
  send: "M4 12l16-8-6 16-3-6z",
  shield: "M12 3l8 3v6c0 5-4 8-8 9-4-1-8-4-8-9V6z",
  smile: "M12 3a9 9 0 1 0 .01 0M9 10h.01M15 10h.01M8 14c1 2 2.500 3 4 3s3-1 4-3",
  star: "M12 4l2.500 5.200 5.500.800-4 4 1 5.600-5-2.700-5 2.700 1-5.600-4-4 5.500-.800z",
  task: "M4 5h16v15H4zM8 12l3 3 5-6",
  thread: "M4 5h16v10H11l-4 3.500V15H4zM8 9h8M8 12h5",
  trash: "M5 7h14M9 7V4h6v3M7 7l1 13h8l1-13",
  user: "M12 12a4 4 0 1 0-.01 0M4 21c.7-5 4-7 8-7s7.300 2 8 7",
  video: "M3 7h12v10H3zM15 11l6-3v8l-6-3z",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name }: { name: IconName }): VNode {
  return html`
    <svg class=${`icon icon-${name}`} viewBox="0 0 24 24" aria-hidden="true">
      <path d=${PATHS[name]} />
    </svg>
  `;
}
