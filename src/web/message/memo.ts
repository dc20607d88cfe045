// Components that are rendered again only if their properties changed.
import { Component, type ComponentType, h, type VNode } from "preact";

/** Wraps a component; `isSame` compares properties. Signals that it reads still render it again. */
export function memo<Props extends object>(
  view: ComponentType<Props>,
  isSame: (a: Props, b: Props) => boolean,
): ComponentType<Props> {
  return class Memo extends Component<Props> {
    override shouldComponentUpdate(next: Props): boolean {
      return !isSame(this.props as Props, next);
    }

    override render(): VNode {
      return h(view as ComponentType, this.props as Props);
    }
  };
}
