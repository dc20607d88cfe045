// Microphone and camera of a call, and what to do where there are none.

/** What could be opened, and what a person can do about the rest; empty if nothing is missing. */
export type Media = { stream: MediaStream; hint: string };

const DEVICES = [["audio", "microphone"], ["video", "camera"]] as const;
const LATER = "then leave the call and join again. You still get the sound and pictures of the others.";

/** Opens both, or what there is of them. */
export async function openMedia(): Promise<Media> {
  const { mediaDevices } = navigator as { mediaDevices?: MediaDevices };
  const stream = new MediaStream();
  if (mediaDevices === undefined) {
    return { stream, hint: "Browsers give microphone and camera only to pages whose address begins with https://." };
  }
  try {
    return { stream: await mediaDevices.getUserMedia({ audio: true, video: true }), hint: "" };
  } catch {
    // Where one of them is missing or not allowed, the other may be there.
  }
  const failures: { name: string; reason: string }[] = [];
  for (const [kind, name] of DEVICES) {
    try {
      for (const track of (await mediaDevices.getUserMedia({ [kind]: true })).getTracks()) stream.addTrack(track);
    } catch (error) {
      failures.push({ name, reason: error instanceof DOMException ? error.name : "" });
    }
  }
  const hints = [...Map.groupBy(failures, ({ reason }) => reason)].map(([reason, missing]) =>
    hintOf(reason, missing.map(({ name }) => name).join(" or "))
  );
  return { stream, hint: hints.join(" ") };
}

function hintOf(reason: string, names: string): string {
  if (reason === "NotFoundError") return `No ${names} was found. Connect one, ${LATER}`;
  if (reason === "NotAllowedError") {
    return `This page may not use your ${names}. Allow it in the settings beside the address of the page, ${LATER}`;
  }
  return `Your ${names} could not be opened. Close what else uses it, ${LATER}`;
}
