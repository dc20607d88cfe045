// A disk so small that a test can fill it: a file system in memory. Only root may mount one.

/** Whether one can be had here. */
export const hasSmallDisk = Deno.build.os === "linux" && Deno.uid() === 0 && await canMount();

export class SmallDisk {
  readonly folder: string;

  private constructor(folder: string) {
    this.folder = folder;
  }

  /** One whose folder belongs to `owner`. */
  static async open(bytes: number, owner: string): Promise<SmallDisk> {
    const disk = new SmallDisk(await Deno.makeTempDir({ prefix: "gateway-disk-", dir: "/tmp" }));
    await run("mount", "-t", "tmpfs", "-o", `size=${bytes}`, "tmpfs", disk.folder);
    await run("chown", owner, disk.folder);
    return disk;
  }

  /** Takes all the space that is left. */
  async fill(): Promise<void> {
    using file = await Deno.create(`${this.folder}/filler`);
    const block = new Uint8Array(1024 * 1024);
    for (let size = block.length; size >= 4096;) {
      try {
        for (let at = 0; at < size;) at += file.writeSync(block.subarray(at, size));
      } catch {
        size /= 2; // No room for so much; there may be for less.
      }
    }
  }

  async free(): Promise<void> {
    await Deno.remove(`${this.folder}/filler`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await run("umount", "--lazy", this.folder);
    await Deno.remove(this.folder);
  }
}

async function canMount(): Promise<boolean> {
  const folder = await Deno.makeTempDir();
  const isMounted = await run("mount", "-t", "tmpfs", "tmpfs", folder).then(() => true, () => false);
  if (isMounted) await run("umount", folder);
  await Deno.remove(folder);
  return isMounted;
}

async function run(command: string, ...args: string[]): Promise<void> {
  const { success, stderr } = await new Deno.Command(command, { args, stdin: "null" }).output();
  if (!success) throw new Error(`${command} ${args.join(" ")}: ${new TextDecoder().decode(stderr)}`);
}
