// The outline of a long document, of both kinds: its headings lead to their places.
import assert from "node:assert/strict";
import { browserTest, launchBrowser } from "../browser.ts";
import { eventually } from "../wait.ts";
import { openTarget } from "./target.ts";
import { assertNoReports, signIn, untilGone, visit } from "./web_page.ts";

const CHAPTERS = 40;
const PHONE = { width: 390, height: 780 };
const DESKTOP = { width: 1280, height: 800 };

browserTest("the outline of a document leads to its headings", async () => {
  await using target = await openTarget({ isOwn: true });
  const ada = await target.token({ sub: "ada", name: "Ada", role: "owner" });
  const chapter = (n: number): string => `## Chapter ${n}\n\n${"Some words of it.\n\n".repeat(5)}`;
  const chapters = Array.from({ length: CHAPTERS }, (_, n) => chapter(n + 1)).join("");
  const text = `# The garden\n\n\`\`\`\n# no heading\n\`\`\`\n\n${chapters}`;
  await using browser = await launchBrowser();
  const page = await signIn(browser, target, ada);
  for (const [kind, editor] of [["text", ".cm-content"], ["rich", ".ProseMirror"]] as const) {
    await page.setViewportSize(DESKTOP);
    const { id } = await target.call(ada, "POST", "/v1/collaboration/documents", { title: kind, kind, text });
    await visit(page, `documents/${id}`);
    await page.locator(editor).getByText("The garden").waitFor();
    const openOutline = async (): Promise<void> => {
      await page.getByRole("button", { name: "Document menu" }).click();
      await page.getByRole("menuitem", { name: "Outline" }).click();
    };
    const entries = page.getByRole("complementary", { name: "Outline" }).getByRole("button");
    /** Whether a chapter is on the screen, which is not long enough for two. */
    const isShown = async (n: number): Promise<boolean> => {
      const box = await page.locator(editor).getByText(`Chapter ${n}`, { exact: true }).boundingBox();
      return box !== null && box.y >= 0 && box.y < DESKTOP.height / 2;
    };
    await openOutline();
    const all = ["The garden", ...Array.from({ length: CHAPTERS }, (_, n) => `Chapter ${n + 1}`)];
    await eventually(async () => assert.deepEqual((await entries.allInnerTexts()).slice(1), all));
    await entries.getByText("Chapter 30", { exact: true }).click();
    await eventually(async () => assert.ok(await isShown(30), kind));
    await page.locator(`${editor}:focus`).waitFor();
    if (kind === "text") {
      await page.keyboard.press("End");
      await page.keyboard.type(" again");
      await entries.getByText("Chapter 30 again", { exact: true }).waitFor();
    }
    await page.setViewportSize(PHONE);
    await entries.getByText("Chapter 20", { exact: true }).click();
    await untilGone(entries);
    await eventually(async () => assert.ok(await isShown(20), kind));
    await openOutline();
    await page.getByRole("complementary", { name: "Outline" }).getByRole("button", { name: "Close" }).click();
    await page.locator("[aria-label='Document menu']:focus").waitFor();
  }
  await assertNoReports(page);
});
