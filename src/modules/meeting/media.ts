// Media connections of participants: ICE servers with credentials that expire, or a token for a media server.
import { createHmac } from "node:crypto";
import { type Clock, HOUR_SECONDS, iso } from "@/core/time/clock.ts";
import type { LiveKit } from "./livekit.ts";
import type { Media, Meeting, Participant } from "./schema.ts";

/** How long TURN credentials are valid for new allocations. */
const TURN_SECONDS = HOUR_SECONDS;

export type IceSettings = {
  stunUrls: readonly string[];
  turnUrls: readonly string[];
  /** Shared with the TURN server (coturn: `use-auth-secret`, `static-auth-secret`). */
  turnSecret: string | undefined;
};

/** Time-limited TURN credentials, which the server verifies with the shared secret alone. */
export function turnCredential(
  secret: string,
  principalId: string,
  expiresAtSeconds: number,
): { username: string; credential: string } {
  const username = `${expiresAtSeconds}:${principalId}`;
  return { username, credential: createHmac("sha1", secret).update(username).digest("base64") };
}

export class MediaBroker {
  readonly #clock: Clock;
  readonly #ice: IceSettings;
  readonly #liveKit: LiveKit | undefined;

  constructor({ clock, ice, liveKit }: { clock: Clock; ice: IceSettings; liveKit: LiveKit | undefined }) {
    this.#clock = clock;
    this.#ice = ice;
    this.#liveKit = liveKit;
  }

  get hasSfu(): boolean {
    return this.#liveKit !== undefined;
  }

  /** Connection data of a participant; none in the lobby. */
  async connectionFor({ id, kind }: Meeting, participant: Participant): Promise<Media> {
    if (participant.state !== "joined") return { mode: "none", iceServers: [], expiresAt: null };
    const ice = this.#iceServers(participant.principalId);
    if (this.#liveKit === undefined) return { mode: "relay", ...ice };
    const { url, token, expiresAt } = await this.#liveKit.createToken(id, kind, participant);
    return { mode: "livekit", url, token, iceServers: ice.iceServers, expiresAt };
  }

  #iceServers(principalId: string): Pick<Media, "iceServers" | "expiresAt"> {
    const { stunUrls, turnUrls, turnSecret } = this.#ice;
    const stun = stunUrls.length === 0 ? [] : [{ urls: [...stunUrls] }];
    if (turnUrls.length === 0 || turnSecret === undefined) return { iceServers: stun, expiresAt: null };
    const expiresAt = Math.floor(this.#clock.now() / 1000) + TURN_SECONDS;
    const turn = { urls: [...turnUrls], ...turnCredential(turnSecret, principalId, expiresAt) };
    return { iceServers: [...stun, turn], expiresAt: iso(expiresAt * 1000) };
  }
}
