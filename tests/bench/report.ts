// What a benchmark says: rows of ours beside a peer's, as a ratio with its spread, for the terminal and for README.

/** One figure. `ratio` is ours over the peer's, so that above 1 is better for us unless `isLowerBetter`. */
export type Row = {
  what: string;
  unit: string;
  peer: string;
  ours: number[];
  theirs: number[];
  isLowerBetter?: true;
  /** What we promise for the median ratio. */
  goal?: number;
};

export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? NaN;
}

/** The ratio of each round, as "how many times better". */
function ratios({ ours, theirs, isLowerBetter }: Row): number[] {
  return ours.map((own, round) => {
    const other = theirs[round] ?? NaN;
    return isLowerBetter === true ? other / own : own / other;
  });
}

export function table(rows: readonly Row[]): string {
  const lines = ["| figure | gateway | peer | times better (spread) | goal |", "|---|---|---|---|---|"];
  for (const row of rows) {
    const all = ratios(row);
    const spread = `${Math.min(...all).toFixed(2)}–${Math.max(...all).toFixed(2)}`;
    lines.push(
      `| ${row.what} | ${round(median(row.ours))} ${row.unit} | ${row.peer}: ${
        round(median(row.theirs))
      } ${row.unit} | ` +
        `**${median(all).toFixed(2)}** (${spread}) | ${row.goal ?? ""} |`,
    );
  }
  return lines.join("\n");
}

/** Of the widest common letters at the size of the chart. */
const LETTER_WIDTH = 6.2;

/** Bars of the median ratios on a logarithmic axis; the line at 1 is the peer. */
export function chart(rows: readonly Row[]): string {
  const labels = rows.map((row) => `${row.what} vs ${row.peer}`);
  const [left, width, step] = [20 + LETTER_WIDTH * Math.max(...labels.map(({ length }) => length)), 420, 30];
  const height = rows.length * step + 50;
  const x = (ratio: number): number => left + width * (Math.log2(Math.min(32, Math.max(0.125, ratio))) + 3) / 8;
  const bars = rows.map((row, at) => {
    const ratio = median(ratios(row));
    const [from, to] = [Math.min(x(1), x(ratio)), Math.max(x(1), x(ratio))];
    const y = 30 + at * step;
    return `<text x="${left - 10}" y="${y + 14}" text-anchor="end">${escape(labels[at] ?? "")}</text>` +
      `<rect x="${from}" y="${y}" width="${Math.max(1, to - from)}" height="18" fill="${
        ratio >= 1 ? "#2a9d8f" : "#e9a23b"
      }"/>` +
      `<text x="${to + 6}" y="${y + 14}">${ratio.toFixed(2)}×</text>`;
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${
    left + width + 80
  }" height="${height}" font-family="sans-serif" font-size="12">` +
    `<rect width="100%" height="100%" fill="white"/><text x="${
      x(1)
    }" y="18" text-anchor="middle">1× = the peer</text>` +
    `<line x1="${x(1)}" y1="24" x2="${x(1)}" y2="${height - 10}" stroke="#888"/>${bars.join("")}</svg>\n`;
}

/** Writes a line to the standard output. */
export function say(line: string): void {
  Deno.stdout.writeSync(new TextEncoder().encode(`${line}\n`));
}

function round(value: number): string {
  return value >= 100 ? String(Math.round(value)) : value.toPrecision(3);
}

function escape(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
}
