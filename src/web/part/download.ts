// Saves what the API responds with as a file: a link of the browser cannot send the token.
import { addressOf } from "../core/api.ts";
import { token } from "../core/session.ts";

export async function download(path: string, name: string): Promise<void> {
  const response = await fetch(addressOf(path), { headers: { Authorization: `Bearer ${token.value}` } });
  if (!response.ok) throw new Error(`${name} could not be downloaded`);
  const link = document.createElement("a");
  link.href = URL.createObjectURL(await response.blob());
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}
