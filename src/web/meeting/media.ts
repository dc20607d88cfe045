// Microphone and camera of a call, and what to do where there are none.

/** What could be opened, and what a person can do about the rest; empty if nothing is missing. */
export type Media = { stream: MediaStream; hint: string };

const DEVICES = [["audio", "microphone"], ["video", "camera"]] as const;
export type Kind = (typeof DEVICES)[number][0];
/** By kind, the devices that were chosen in this tab. */
const CHOSEN = "gateway.devices";
const LATER = "then leave the call and join again. You still get the sound and pictures of the others.";

/** Opens both, or what there is of them. */
export async function openMedia(): Promise<Media> {
  const { mediaDevices } = navigator as { mediaDevices?: MediaDevices };
  const stream = new MediaStream();
  if (mediaDevices === undefined) {
    return { stream, hint: "Browsers give microphone and camera only to pages whose address begins with https://." };
  }
  try {
    const wanted = { audio: wantedOf("audio"), video: wantedOf("video") };
    return { stream: await mediaDevices.getUserMedia(wanted), hint: "" };
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
  return { stream, hint: hints.join(" ") };
}

/** Opens one device, and from now on prefers it. */
export async function openDevice(kind: Kind, deviceId: string): Promise<MediaStreamTrack> {
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
  if (reason === "NotFoundError") return `No ${names} was found. Connect one, ${LATER}`;
  if (reason === "NotAllowedError") {
    return `This page may not use your ${names}. Allow it in the settings beside the address of the page, ${LATER}`;
  }
  return `Your ${names} could not be opened. Close what else uses it, ${LATER}`;
}
