// Links that a browser follows by itself: an `<img>`, a `<video>` or a download cannot send a token.
import { Buffer } from "node:buffer";
import type { Actor, TenantRole } from "@/core/actor.ts";
import { type Clock, iso } from "@/core/clock.ts";
import { Fault } from "@/core/fault.ts";
import type { Stamp } from "@/core/seal.ts";
import type { IdentityService, Standing } from "@/modules/identity/mod.ts";
import type { Wanted } from "../content.ts";
import type { Box } from "../picture/thumbnails.ts";
import { FILE_PATH } from "../routes.ts";
import type { FileLink, LinkMake } from "../schema.ts";
import type { FileService } from "../service.ts";

/** Where links are followed. */
export const LINKED_PATH = `${FILE_PATH}/linked`;

const FORM = /^([A-Za-z0-9_-]{1,4000})\.([A-Za-z0-9_-]{22})$/;
/** Whoever follows a link reads a content, and does nothing else. */
const SCOPES: ReadonlySet<string> = new Set(["file.read"]);

type Deps = {
  clock: Clock;
  stamp: Stamp;
  files: Pick<FileService, "readable">;
  identity: Pick<IdentityService, "endOf">;
  revalidate: (standing: Standing) => Promise<Actor | undefined>;
};

/** What a link says: whose rights it has, up to which second, and what it shows. */
type Said = [
  tenantId: string,
  principalId: string,
  role: TenantRole,
  tokenId: string | null,
  until: number,
  fileId: string,
  thumbnail: Box | null,
  isDownload: boolean,
];

/**
 * A link names who made it, and is no more than they are: each use asks anew whether they are enabled, their token was not
 * revoked and they see the file. So nothing has to be kept of links, and none outlives a right. It says the same each time it
 * is made within half its life, so that a page that is loaded again finds its pictures in the browser's cache.
 */
export class LinkService {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** Links to those of the files that the caller may read; the others are as if they were not there. */
  async make(actor: Actor, { ids, thumbnail, download, expiresInSeconds }: LinkMake): Promise<FileLink[]> {
    const { tenantId, principalId, role, tokenId } = actor;
    const until = await this.#until(actor, expiresInSeconds);
    const readable = await this.#deps.files.readable(actor, ids);
    return readable.map((id) => {
      const said: Said = [tenantId, principalId, role, tokenId ?? null, until, id, thumbnail ?? null, download];
      const body = Buffer.from(JSON.stringify(said)).toString("base64url");
      return { id, url: `${LINKED_PATH}/${body}.${this.#deps.stamp.stamp(body)}`, expiresAt: iso(until * 1000) };
    });
  }

  /** What a link shows and to whom; throws `not_found` for one that is not ours or whose maker is gone, `gone` when it is over. */
  async open(link: string, assertOrigin: (tenantId: string) => void): Promise<Wanted> {
    const [, body = "", stamp = ""] = FORM.exec(link) ?? [];
    if (!this.#deps.stamp.isOf(stamp, body)) throw absent();
    const said: Said = JSON.parse(Buffer.from(body, "base64url").toString());
    const [tenantId, principalId, role, tokenId, until, id, thumbnail, isDownload] = said;
    assertOrigin(tenantId);
    const expiresAt = until * 1000;
    if (expiresAt <= this.#deps.clock.now()) throw new Fault("gone", "The link has expired");
    const standing = { tenantId, principalId, role, tokenId: tokenId ?? undefined, scopes: SCOPES, expiresAt };
    const actor = await this.#deps.revalidate(standing);
    if (actor === undefined) throw absent();
    return { actor, id, thumbnail: thumbnail ?? undefined, isDownload };
  }

  /** The second when a link ends: no later than what its maker's token came of. */
  async #until(actor: Actor, seconds: number): Promise<number> {
    const { clock, identity } = this.#deps;
    const half = seconds / 2;
    const until = Math.floor(clock.now() / 1000 / half) * half + seconds;
    const end = await identity.endOf(actor);
    return Math.floor(end === undefined ? until : Math.min(until, end / 1000));
  }
}

function absent(): Fault {
  return new Fault("not_found", "No such link, or its maker may not read the file any more");
}
