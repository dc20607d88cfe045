// Images in requests to models: what they count, and the same requests without them.
import { estimateTokens } from "@/core/text/tokens.ts";
import type { ModelImage, ModelMessage, ModelRequest } from "./model.ts";

/** Models see squares of some hundred pixels; the most that one of the protocols counts for them. */
const PIXELS_PER_TOKEN = 750;
const NONE: readonly ModelImage[] = [];

/** About how many tokens an image of this size has. */
export function imageTokens({ width, height }: Pick<ModelImage, "width" | "height">): number {
  return Math.ceil(width * height / PIXELS_PER_TOKEN);
}

export function imagesOf(messages: readonly ModelMessage[]): readonly ModelImage[] {
  return messages.flatMap((message) => message.role === "user" ? message.images ?? NONE : NONE);
}

/** The same of all images in messages. */
export function imagesTokens(messages: readonly ModelMessage[]): number {
  return imagesOf(messages).reduce((sum, image) => sum + imageTokens(image), 0);
}

/** About how many tokens the input of a model has. */
export function estimateInput({ messages, tools, responseSchema }: ModelRequest): number {
  return estimateTokens(JSON.stringify([messages.map(withoutData), tools, responseSchema])) + imagesTokens(messages);
}

/** The request for a model that takes no images: in their places it reads that there are some. */
export function withoutImages(request: ModelRequest): ModelRequest {
  if (imagesOf(request.messages).length === 0) return request;
  return { ...request, messages: request.messages.map(withNotes) };
}

/** A text and its images in their order; no text is empty. */
export function partsOf(text: string, images: readonly ModelImage[]): (string | ModelImage)[] {
  const ends = [...images.map(({ at }) => at), text.length];
  return ends.flatMap((end, n) => {
    const part = text.slice(ends[n - 1] ?? 0, end);
    const image = images[n];
    return [...part.trim() === "" ? [] : [part], ...image === undefined ? [] : [image]];
  });
}

/** What a model reads in the place of an image that it is not shown. */
export function imageNote(name: string, reason: string): string {
  return `(the image ${name} is not shown: ${reason})`;
}

function withNotes(message: ModelMessage): ModelMessage {
  if (message.role !== "user" || message.images === undefined) return message;
  const parts = partsOf(message.text, message.images);
  const noteOf = ({ name }: ModelImage) => `\n${imageNote(name, "the model does not take it")}`;
  return { role: "user", text: parts.map((part) => typeof part === "string" ? part : noteOf(part)).join("") };
}

function withoutData(message: ModelMessage): ModelMessage {
  return message.role === "user" && message.images !== undefined ? { role: "user", text: message.text } : message;
}
