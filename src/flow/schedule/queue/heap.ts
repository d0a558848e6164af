// A binary heap whose items know their index, so that any of them can be removed.

export interface HeapItem {
  /** Set by the heap; -1 while the item is in no heap. */
  heapIndex: number;
}

export class Heap<Item extends HeapItem> {
  readonly #items: Item[] = [];
  readonly #isBefore: (a: Item, b: Item) => boolean;

  constructor(isBefore: (a: Item, b: Item) => boolean) {
    this.#isBefore = isBefore;
  }

  get size(): number {
    return this.#items.length;
  }

  get first(): Item | undefined {
    return this.#items[0];
  }

  /** The item must be in no heap. */
  push(item: Item): void {
    this.#items.push(item);
    this.#rise(item, this.#items.length - 1);
  }

  /** Does nothing for an item that is not in the heap. */
  remove(item: Item): void {
    const { heapIndex: index } = item;
    if (index < 0) return;
    item.heapIndex = -1;
    const last = this.#items.pop();
    if (last === undefined || last === item) return;
    this.#rise(last, index);
    this.#sink(last, last.heapIndex);
  }

  #rise(item: Item, from: number): void {
    const items = this.#items;
    let index = from;
    while (index > 0) {
      const above = (index - 1) >> 1;
      const parent = items[above];
      if (parent === undefined || !this.#isBefore(item, parent)) break;
      this.#put(parent, index);
      index = above;
    }
    this.#put(item, index);
  }

  #sink(item: Item, from: number): void {
    const items = this.#items;
    let index = from;
    for (;;) {
      const left = items[2 * index + 1];
      const right = items[2 * index + 2];
      const child =
        right !== undefined && left !== undefined && this.#isBefore(right, left) ? right : left;
      if (child === undefined || !this.#isBefore(child, item)) break;
      const below = child.heapIndex;
      this.#put(child, index);
      index = below;
    }
    this.#put(item, index);
  }

  #put(item: Item, index: number): void {
    this.#items[index] = item;
    item.heapIndex = index;
  }
}
