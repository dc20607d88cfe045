// Methods and values that a test replaces.

/** Replaces a property until it is disposed of. */
export function replace<Target extends object, Name extends keyof Target>(
  target: Target,
  name: Name,
  value: Target[Name],
): Disposable {
  const before = target[name];
  target[name] = value;
  return { [Symbol.dispose]: () => void (target[name] = before) };
}
