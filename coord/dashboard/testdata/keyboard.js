// Goes with a person who uses only keys through a page, and says what this person cannot reach or see. It is loaded before the page.
"use strict";

window.keyboard = (() => {
  const clicked = new Set(); // elements on which a click does something
  const listen = EventTarget.prototype.addEventListener;
  EventTarget.prototype.addEventListener = function (type, ...rest) {
    if (/^(click|mousedown|pointerdown)$/.test(type) && this instanceof Element && !this.matches("form")) clicked.add(this); // of a form, its buttons
    return listen.call(this, type, ...rest);
  };

  const interactive = `a[href], button, input:not([type=hidden]), select, textarea, summary, [contenteditable], [onclick], [tabindex="0"],
    [role=button], [role=link], [role=checkbox], [role=switch], [role=tab], [role=option], [role=menuitem]`;
  const visible = (e) => e.checkVisibility({ visibilityProperty: true }) && e.getClientRects().length > 0 && !e.disabled;

  // wanted lists what Tab has to reach. A pointer that becomes a hand promises that a click does something.
  function wanted() {
    const hand = (e) => getComputedStyle(e).cursor === "pointer" && !e.closest(interactive);
    const picture = (e) => e.closest("[role=img]"); // the chart listens, and does nothing
    return [...document.body.querySelectorAll("*")].filter((e) => (e.matches(interactive) || clicked.has(e) || hand(e)) && visible(e) && !picture(e));
  }

  const name = (e) => `${e.localName}${e.id && "#" + e.id} ${JSON.stringify((e.ariaLabel || e.textContent || e.name || "").trim().slice(0, 60))}`;

  // look is what tells an element with the focus from others.
  function look(e) {
    const s = getComputedStyle(e);
    return [s.outlineStyle === "none" ? "" : [s.outlineStyle, s.outlineWidth, s.outlineColor], s.boxShadow].join(" ");
  }

  // clip is what the boxes around an element, and the window, let one see of a rectangle.
  function clip(e, { left, top, right, bottom }) {
    for (let box = e.parentElement; box && box !== document.body; box = box.parentElement) {
      if (getComputedStyle(box).overflow === "visible") continue;
      const r = box.getBoundingClientRect();
      [left, top, right, bottom] = [Math.max(left, r.left), Math.max(top, r.top), Math.min(right, r.right), Math.min(bottom, r.bottom)];
    }
    return { left: Math.max(left, 0), top: Math.max(top, 0), right: Math.min(right, innerWidth), bottom: Math.min(bottom, innerHeight) };
  }

  // unseen says what one does not see of an element, "" for nothing.
  function unseen(e) {
    const r = e.getClientRects()[0], seen = clip(e, r), tall = r.height > innerHeight / 2; // the first line of a link
    if (seen.bottom - seen.top < Math.min(r.height, innerHeight / 2) - 1 || seen.right - seen.left < Math.min(r.width, 24) - 1) return "is out of view";
    for (const x of [seen.left + 3, (seen.left + seen.right) / 2, seen.right - 3]) { // corners are round
      for (const y of [(seen.top + seen.bottom) / 2, ...(tall ? [] : [seen.top + 3, seen.bottom - 3])]) {
        const there = document.elementFromPoint(x, y);
        if (there && !e.contains(there) && !there.contains(e)) return "is behind " + name(there);
      }
    }
    return "";
  }

  // ringless says that the mark of the focus cannot be seen, "" if it can: three of its sides are enough.
  function ringless(e) {
    if (look(e) === plain.get(e)) return "looks as it does without the focus";
    const s = getComputedStyle(e), r = e.getBoundingClientRect(), by = parseFloat(s.outlineOffset) + parseFloat(s.outlineWidth) / 2;
    const ring = { left: r.left - by, top: r.top - by, right: r.right + by, bottom: r.bottom + by }, seen = clip(e, ring);
    const sides = ["left", "top", "right", "bottom"].filter((side) => Math.abs(seen[side] - ring[side]) < 1);
    const tall = r.height > innerHeight / 2;
    return sides.length < (tall ? 2 : 3) ? "shows only these sides of its mark: " + sides : "";
  }

  // backwards says that the focus went up or back to the left, "" if it did not. A column on the right may begin further up.
  function backwards(from, to) {
    if (!from?.isConnected) return "";
    const a = from.getBoundingClientRect(), b = to.getBoundingClientRect();
    const up = b.bottom <= a.top + 1 && b.left < a.right, left = b.right <= a.left + 1 && b.bottom > a.top + 1 && b.top < a.bottom - 1;
    return up || left ? "comes after " + name(from) : "";
  }

  let plain, path; // how elements look without the focus, and where it was

  function begin() {
    plain = new Map([...document.body.querySelectorAll("*")].map((e) => [e, look(e)]));
    path = [];
  }

  const focused = () => (document.activeElement === document.body ? null : document.activeElement);

  // step looks at the place to which the focus went forwards.
  function step() {
    const e = focused();
    if (!e) return { end: true, wrong: wanted().filter((e) => plain.has(e) && !path.includes(e)).map((e) => name(e) + " is not reached") };
    const trapped = path.includes(e);
    const wrong = [trapped && "has the focus again", unseen(e), ringless(e), backwards(path.at(-1), e)].filter(Boolean).map((w) => name(e) + " " + w);
    path.push(e);
    const across = e.scrollWidth > e.clientWidth + 1, down = e.scrollHeight > e.clientHeight + 1;
    const scrolls = !e.matches("[role=region]") ? "" : across ? "scrollLeft" : down ? "scrollTop" : "";
    return { end: trapped, wrong, scrolls };
  }

  // back looks at the place to which the focus went backwards.
  function back() {
    const e = focused(), expected = path.pop();
    if (e === (expected || null)) return { end: !e, wrong: e ? [unseen(e), ringless(e)].filter(Boolean).map((w) => name(e) + " " + w) : [] };
    return { end: true, wrong: [`backwards comes ${e ? name(e) : "the end"} and not ${expected ? name(expected) : "the beginning"}`] };
  }

  return { begin, step, back, unseen };
})();
