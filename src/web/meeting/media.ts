// Microphone and camera of a call, and what to do where there are none.

const DEVICES = [["audio", "microphone"], ["video", "camera"]] as const;
export type Kind = (typeof DEVICES)[number][0];
/** By kind, the devices that were chosen in this tab. */
const CHOSEN = "gateway.devices";

/** Microphone and camera that are open. */
export class OwnMedia {
  readonly stream: MediaStream;
  /** What is missing, and what to do about it; empty: nothing. */
  readonly hint: string;
  /** Is called once another device of this kind is used. */
  onChange: (kind: string) => void = () => undefined;
  #isClosed = false;
  /** Ends with the last change of a device. */
  #chosen: Promise<void> = Promise.resolve();

  constructor(stream: MediaStream, hint = "") {
    this.stream = stream;
    this.hint = hint;
  }

  /** Whether there is a microphone, or a camera. */
  has(kind: Kind): boolean {
    return this.#trackOf(kind) !== undefined;
  }

  enable(kind: Kind, isEnabled: boolean): void {
    for (const track of this.stream.getTracks()) if (track.kind === kind) track.enabled = isEnabled;
  }

  /** The id of the microphone or camera that is used. */
  deviceOf(kind: Kind): string | undefined {
    return this.#trackOf(kind)?.getSettings().deviceId;
  }

  /** Uses another device, once those that were chosen before are used: the last choice counts. */
  choose(kind: Kind, deviceId: string): Promise<void> {
    const chosen = this.#chosen.then(() => this.#open(kind, deviceId));
    // The caller of that choice receives its failure.
    this.#chosen = chosen.catch(() => undefined);
    return chosen;
  }

  close(): void {
    this.#isClosed = true;
    for (const track of this.stream.getTracks()) track.stop();
  }

  /** The device before it is closed first: many phones open only one camera at a time. */
  async #open(kind: Kind, deviceId: string): Promise<void> {
    const old = this.#trackOf(kind);
    if (old === undefined) return;
    const { deviceId: before = "" } = old.getSettings();
    old.stop();
    try {
      this.#replace(old, await openDevice(kind, deviceId));
    } catch (error) {
      this.#replace(old, await openDevice(kind, before));
      throw error;
    }
  }

  #replace(old: MediaStreamTrack, track: MediaStreamTrack): void {
    // Nobody may use it now.
    if (this.#isClosed) return track.stop();
    track.enabled = old.enabled;
    this.stream.removeTrack(old);
    this.stream.addTrack(track);
    this.onChange(track.kind);
  }

  #trackOf(kind: Kind): MediaStreamTrack | undefined {
    return this.stream.getTracks().find((track) => track.kind === kind);
  }
}

/** Opens both, or what there is of them. */
export async function openMedia(): Promise<OwnMedia> {
  const { mediaDevices } = navigator as { mediaDevices?: MediaDevices };
  const stream = new MediaStream();
  if (mediaDevices === undefined) {
    return new OwnMedia(
      stream,
      "Browsers give microphone and camera only to pages whose address begins with https://.",
    );
  }
  try {
    return new OwnMedia(await mediaDevices.getUserMedia({ audio: wantedOf("audio"), video: wantedOf("video") }));
  } catch {
    // Where one of them is missing or not allowed, the other may be there.
  }
  const failures: { name: string; reason: string }[] = [];
  for (const [kind, name] of DEVICES) {
    try {
      const opened = await mediaDevices.getUserMedia({ [kind]: wantedOf(kind) });
      for (const track of opened.getTracks()) stream.addTrack(track);
    } catch (error) {
      failures.push({ name, reason: error instanceof DOMException ? error.name : "" });
    }
  }
  const hints = [...Map.groupBy(failures, ({ reason }) => reason)].map(([reason, missing]) =>
    hintOf(reason, missing.map(({ name }) => name).join(" or "))
  );
  return new OwnMedia(stream, hints.join(" "));
}

/** Opens one device, and from now on prefers it. */
async function openDevice(kind: Kind, deviceId: string): Promise<MediaStreamTrack> {
  const opened = await navigator.mediaDevices.getUserMedia({ [kind]: { deviceId: { exact: deviceId } } });
  const [track] = opened.getTracks();
  if (track === undefined) throw new TypeError("Expected a track, received none");
  sessionStorage.setItem(CHOSEN, JSON.stringify({ ...chosen(), [kind]: deviceId }));
  return track;
}

function chosen(): Partial<Record<Kind, string>> {
  return JSON.parse(sessionStorage.getItem(CHOSEN) ?? "{}");
}

/** Another one is opened if that is no longer there. */
function wantedOf(kind: Kind): true | MediaTrackConstraints {
  const { [kind]: deviceId } = chosen();
  return deviceId === undefined ? true : { deviceId };
}

function hintOf(reason: string, names: string): string {
  if (reason === "NotFoundError") return `No ${names} was found. Connect one.`;
  if (reason === "NotAllowedError") {
    return `This page may not use your ${names}. Allow it in the settings beside the address of the page.`;
  }
  return `Your ${names} could not be opened. Close what else uses it.`;
}
