// Temporary links to contents for an `<img>`, a `<video>` or a download, which cannot send a token.
import { Buffer } from "node:buffer";
import type { Actor, TenantRole } from "@/core/actor.ts";
import { type Clock, iso } from "@/core/time/clock.ts";
import { Fault, notFound } from "@/core/fault.ts";
import type { Signer } from "@/core/crypto.ts";
import type { CredentialSnapshot, IdentityService } from "@/modules/identity/mod.ts";
import type { ContentRequest } from "./content_response.ts";
import type { ThumbnailSize } from "./image/thumbnails.ts";
import { FILE_PATH } from "./routes.ts";
import type { FileLink, LinkCreate } from "./schema.ts";
import type { FileService } from "./service.ts";

export const LINKED_PATH = `${FILE_PATH}/linked`;

const LINK_PATTERN = /^([A-Za-z0-9_-]{1,4000})\.([A-Za-z0-9_-]{22})$/;
/** The scopes of a link's actor. */
const SCOPES: ReadonlySet<string> = new Set(["file.read"]);

type Deps = {
  clock: Clock;
  signer: Signer;
  files: Pick<FileService, "filterReadable">;
  identity: Pick<IdentityService, "sessionExpiresAt">;
  revalidate: (credential: CredentialSnapshot) => Promise<Actor | undefined>;
};

/** The signed payload of a link: its creator's credential, its expiry in seconds, and the content. */
type LinkPayload = [
  tenantId: string,
  principalId: string,
  role: TenantRole,
  tokenId: string | null,
  expirySecond: number,
  fileId: string,
  thumbnail: ThumbnailSize | null,
  isDownload: boolean,
];

/**
 * A link has the current permissions of its creator: each use checks that the creator is enabled, that the token is not revoked
 * and that the file is visible. So links are not stored, and none outlives a permission. Links created within half a lifetime
 * are equal, so that browsers find the images of a reloaded page in their cache.
 */
export class LinkService {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** Links to the files that the caller may read; others are omitted. */
  async create(actor: Actor, { ids, thumbnail, download, expiresInSeconds }: LinkCreate): Promise<FileLink[]> {
    const { tenantId, principalId, role, tokenId } = actor;
    const expirySecond = await this.#expirySecond(actor, expiresInSeconds);
    const readable = await this.#deps.files.filterReadable(actor, ids);
    return readable.map((id) => {
      const payload: LinkPayload = [
        tenantId,
        principalId,
        role,
        tokenId ?? null,
        expirySecond,
        id,
        thumbnail ?? null,
        download,
      ];
      const body = Buffer.from(JSON.stringify(payload)).toString("base64url");
      return { id, url: `${LINKED_PATH}/${body}.${this.#deps.signer.sign(body)}`, expiresAt: iso(expirySecond * 1000) };
    });
  }

  /** Verifies a link; throws `not_found` if it is invalid or its creator lost access, `gone` if it has expired. */
  async open(link: string, assertOrigin: (tenantId: string) => void): Promise<ContentRequest> {
    const [, body = "", signature = ""] = LINK_PATTERN.exec(link) ?? [];
    if (!this.#deps.signer.verify(signature, body)) throw notFound("link, or its creator may no longer read the file");
    const payload: LinkPayload = JSON.parse(Buffer.from(body, "base64url").toString());
    const [tenantId, principalId, role, tokenId, expirySecond, id, thumbnail, isDownload] = payload;
    assertOrigin(tenantId);
    const expiresAt = expirySecond * 1000;
    if (expiresAt <= this.#deps.clock.now()) throw new Fault("gone", "The link has expired");
    const credential = { tenantId, principalId, role, tokenId: tokenId ?? undefined, scopes: SCOPES, expiresAt };
    const actor = await this.#deps.revalidate(credential);
    if (actor === undefined) throw notFound("link, or its creator may no longer read the file");
    return { actor, id, thumbnail: thumbnail ?? undefined, isDownload };
  }

  /** The second at which a link expires: not after the creator's session. */
  async #expirySecond(actor: Actor, seconds: number): Promise<number> {
    const { clock, identity } = this.#deps;
    const half = seconds / 2;
    const linkEnd = Math.floor(clock.now() / 1000 / half) * half + seconds;
    const sessionEnd = await identity.sessionExpiresAt(actor);
    return Math.floor(sessionEnd === undefined ? linkEnd : Math.min(linkEnd, sessionEnd / 1000));
  }
}
