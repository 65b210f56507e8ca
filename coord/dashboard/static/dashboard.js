// Applies live updates to a page, shows times in the reader's time zone, and adds keyboard control. Every page works
// without this script.
"use strict";

(() => {
  const $ = (selector, root = document) => root.querySelector(selector);
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  document.documentElement.classList.add("scripted");

  // Times. writeTimes runs every second, so that ages and running durations stay current.

  function duration(ms) { // same format as Duration in widget/words.go
    const s = Math.floor(ms / 1000), two = (n) => String(n).padStart(2, "0");
    if (ms < 0) return "0 ms";
    if (s < 1) return Math.floor(ms) + " ms";
    if (s < 10) return (Math.floor(ms / 100) / 10).toFixed(1) + " s";
    if (s < 60) return s + " s";
    if (s < 3600) return `${Math.floor(s / 60)} min ${two(s % 60)} s`;
    if (s < 86400) return `${Math.floor(s / 3600)} h ${two(Math.floor(s % 3600 / 60))} min`;
    return `${Math.floor(s / 86400)} d ${two(Math.floor(s % 86400 / 3600))} h`;
  }

  function age(ms) {
    const s = Math.round(Math.abs(ms) / 1000);
    const text = s < 60 ? s + " s" : s < 3600 ? Math.floor(s / 60) + " min" : s < 172800 ? Math.floor(s / 3600) + " h" : Math.floor(s / 86400) + " d";
    return ms < -500 ? "in " + text : s < 1 ? "now" : text + " ago";
  }

  function writeTimes(root = document) {
    const now = Date.now();
    for (const t of all("time[datetime]", root)) {
      const at = Date.parse(t.dateTime);
      if (!t.title) t.title = new Date(at).toLocaleString();
      const text = "age" in t.dataset ? age(now - at) : "since" in t.dataset ? duration(now - at) : "clock" in t.dataset ? new Date(at).toLocaleTimeString() : "";
      if (text && t.textContent !== text) t.textContent = text;
    }
    const scale = $("#scale > [data-open]");
    if (scale) {
      const span = Math.max(now - Date.parse(scale.dataset.from), 1000);
      for (const line of all("svg.line")) line.setAttribute("viewBox", `0 0 ${span} 10`);
    }
  }

  // Live updates. A frame has the HTML of new and changed pieces by part. If the keys of a part or their order changed,
  // it also has all keys in order.

  const held = new Map(); // delayed changes by part; they are applied when the reader scrolls back to the part's top

  function element(html) {
    const template = document.createElement("template");
    template.innerHTML = html; // the coordinator has escaped all texts in it
    return template.content.firstElementChild;
  }

  function put(old, html) {
    const fresh = element(html), at = document.activeElement;
    const heir = old.contains(at) && counterpart(at, old, fresh);
    if (old.dataset.state !== fresh.dataset.state) fresh.classList.add("flash");
    old.replaceWith(fresh);
    if (heir) focus(heir, { preventScroll: true });
    return fresh;
  }

  // counterpart returns the element that gets the focus when the piece around a focused element is replaced: the
  // element with the same function, or else the new piece itself, on which Enter has no effect.
  function counterpart(of, old, fresh) {
    const stops = (piece) => all("a, button, [tabindex]", piece), href = (e) => e.getAttribute("href");
    const same = (e) => e && e.localName === of.localName && e.dataset.copy === of.dataset.copy && (href(e) === href(of) || e.textContent === of.textContent);
    const now = stops(fresh), there = now[stops(old).indexOf(of)];
    return same(there) ? there : now.find(same) || fresh;
  }

  // focus moves the focus to an element, even if Tab does not reach the element.
  function focus(e, options) {
    if (e.tabIndex < 0) e.tabIndex = -1;
    e.focus(options);
  }

  function apply(part) {
    const box = document.getElementById(part.id);
    if (!box) return;
    const pieces = part.pieces || {}, have = new Map([...box.children].map((c) => [c.dataset.key, c]));
    for (const [key, html] of Object.entries(pieces)) {
      if (have.has(key)) have.set(key, put(have.get(key), html));
    }
    if (!part.keys && !part.gone) return;
    const keys = part.keys || [];
    if ("hold" in box.dataset && box.children.length && box.getBoundingClientRect().top < 0) {
      const waiting = held.get(part.id) || { pieces: {} };
      held.set(part.id, { keys, pieces: Object.assign(waiting.pieces, pieces) });
    } else {
      arrange(box, keys, pieces);
    }
    showHeld();
  }

  function arrange(box, keys, pieces) {
    held.delete(box.id);
    const have = new Map([...box.children].map((c) => [c.dataset.key, c])), first = !have.size, at = document.activeElement;
    const order = [];
    for (const key of keys) {
      let e = have.get(key);
      if (!e && pieces[key]) {
        e = element(pieces[key]);
        if (!first) e.classList.add("flash");
      }
      if (e) order.push(e);
    }
    const wanted = new Set(order);
    for (const e of [...box.childNodes]) {
      if (wanted.has(e)) continue;
      if (e.contains(at)) gone = rows().indexOf(e);
      e.remove();
    }
    order.forEach((e, i) => { if (box.children[i] !== e) box.insertBefore(e, box.children[i] || null); });
    if (box.contains(at)) at.focus({ preventScroll: true }); // a moved element loses the focus
  }

  function showHeld() {
    const button = $("#fresh"), runs = held.get("runs");
    if (!button) return;
    const have = new Set(all("#runs > [data-key]").map((c) => c.dataset.key));
    const n = runs ? runs.keys.filter((k) => !have.has(k)).length : 0;
    button.hidden = !n;
    button.textContent = n === 1 ? "1 new run ↑" : `${n} new runs ↑`;
  }

  function releaseHeld() {
    for (const [id, { keys, pieces }] of [...held]) {
      const box = document.getElementById(id);
      if (box && box.getBoundingClientRect().top >= 0) {
        arrange(box, keys, pieces);
        writeTimes(box);
      }
    }
    showHeld();
  }

  // The stream of live updates. It is closed while the page is hidden, and resumes after the last received event.

  // A coordinator that is frozen or disconnected does not close the stream, but becomes silent. Normally it sends a
  // message at least every two seconds (heartbeat in page/stream.go).

  const silentAfter = 8000, reconnectAfter = 30000;
  let source, address, lastID, retry;
  let heard = Date.now(), tried = heard; // times of the last message and of the last attempt to connect

  function hear(state) {
    heard = Date.now();
    if ($("#live").dataset.state !== state) say(state, "live");
  }

  function listen() { // runs every second
    const now = Date.now();
    if (!address || document.hidden || now - heard < silentAfter) return;
    say("lost", "no news since " + new Date(heard).toLocaleTimeString());
    if (now - tried > reconnectAfter && source?.readyState !== EventSource.CLOSED) connect(); // the connection may be dead although the coordinator works
  }

  function say(state, word) {
    const live = $("#live"), text = $(".word", live);
    live.dataset.state = state;
    if (text.textContent !== word) text.textContent = word; // otherwise a screen reader would repeat it
  }

  function connect() {
    clearTimeout(retry);
    const wanted = $("[data-live]")?.dataset.live || "";
    if (wanted !== address) { // another page, or another list on it
      address = wanted;
      lastID = null;
      held.clear();
      heard = Date.now();
    }
    tried = Date.now();
    source?.close();
    source = null;
    if (!address || document.hidden) return;
    const url = new URL(address, location.href);
    if (lastID !== null) url.searchParams.set("after", lastID);
    const mine = source = new EventSource(url);
    mine.onopen = () => hear("on");
    mine.addEventListener("beat", () => hear("on"));
    mine.onmessage = (message) => {
      hear("on");
      lastID = message.lastEventId;
      for (const part of JSON.parse(message.data).parts || []) apply(part);
      writeTimes();
    };
    mine.onerror = () => {
      if (Date.now() - heard < silentAfter) say("lost", "reconnecting"); // later, listen shows the time of the last message instead
      if (mine.readyState !== EventSource.CLOSED || mine !== source) return;
      retry = setTimeout(connect, 5000); // refused: an EventSource then neither retries nor reports the status
      fetch(url, { headers: { Accept: "text/event-stream" } }).then((answer) => { answer.body?.cancel(); reloadIf(answer.status); }, () => {}); // reads only the status
    };
  }

  // reloadIf reloads the page if its reader has lost the right to read it, or has logged out in another tab. A page
  // that explains how to log in then replaces the data.
  function reloadIf(status) {
    if (status === 401 || status === 403) location.reload();
  }
  document.addEventListener("htmx:responseError", (event) => reloadIf(event.detail.xhr.status));

  document.addEventListener("visibilitychange", () => {
    if (document.hidden) {
      source?.close();
      source = null;
      say("off", "paused");
    } else {
      heard = Date.now(); // the stream was closed meanwhile, so its silence is no fault
      connect();
    }
  });

  // Keys.

  let gone = -1; // index of the removed row that had the focus, or -1
  document.addEventListener("focusin", () => (gone = -1));

  function rows() {
    return all(".list tbody tr").filter((row) => row.offsetParent !== null);
  }

  function step(by) {
    const list = rows();
    const at = list.findIndex((row) => row.contains(document.activeElement));
    if (at >= 0) go(list, at + by);
    else if (gone >= 0) go(list, by > 0 ? gone : gone - 1);
    else go(list, by > 0 ? 0 : list.length - 1);
  }

  // go scrolls to a row and moves the focus to the link that opens it, or to the row if it has no link.
  function go(list, place) {
    const row = list[Math.min(Math.max(place, 0), list.length - 1)];
    if (!row) return;
    focus($("[data-open]", row) || row);
    row.scrollIntoView({ block: "nearest" });
  }

  function search() {
    const field = $("[data-search]") || $(".filter select");
    if (!field) return location.assign("/#f-signer");
    field.focus();
    field.select?.();
  }

  // leave restores the text of a field and removes the focus. By default, Escape empties a search field in some
  // browsers, and the list would be reloaded without the filter.
  function leave(e) {
    e.preventDefault();
    if (e.target.matches("input")) e.target.value = e.target.defaultValue;
    e.target.blur();
  }

  const keys = { "/": search, j: () => step(1), k: () => step(-1), u: () => $("[data-up]")?.click(), "?": () => $("#help").showModal() };

  // People who use dictation, or press keys by mistake, can turn off the keys of one character.
  const memory = (() => { try { return localStorage; } catch { return {}; } })(); // a browser may forbid storage
  const single = $("#single-keys");
  single.checked = memory.singleKeys !== "off";
  single.addEventListener("change", () => (memory.singleKeys = single.checked ? "on" : "off"));

  document.addEventListener("keydown", (e) => {
    if (e.ctrlKey || e.metaKey || e.altKey || e.isComposing || $("dialog[open]")) return;
    if (e.target.matches("input, select, textarea")) {
      if (e.key === "Escape") leave(e);
      return;
    }
    if (keys[e.key] && single.checked) {
      e.preventDefault();
      keys[e.key]();
    }
  });

  // Buttons, scrolling and navigation.

  document.addEventListener("click", async (e) => {
    const button = e.target.closest("button");
    if (!button) return;
    if (button.id === "help-button") $("#help").showModal();
    if (button.id === "fresh") {
      $("#list").scrollIntoView();
      releaseHeld();
      go(rows(), 0);
    }
    if (button.dataset.copy) {
      try {
        await navigator.clipboard.writeText(button.dataset.copy);
        button.textContent = $("#said").textContent = "copied";
        setTimeout(() => ((button.textContent = "copy"), ($("#said").textContent = "")), 1500);
      } catch { // the clipboard needs https or loopback: select the command, so that the reader can copy it
        getSelection().selectAllChildren(button.previousElementSibling);
      }
    }
  });

  document.addEventListener("scroll", releaseHeld, { passive: true });
  document.addEventListener("htmx:configRequest", (e) => { // drop empty parameters, so that readers can share the address
    for (const [name, value] of Object.entries(e.detail.parameters)) if (value === "") delete e.detail.parameters[name];
  });
  document.addEventListener("htmx:afterSettle", () => {
    connect();
    writeTimes();
  });

  const center = (entry) => entry?.scrollIntoView({ block: "nearest", inline: "center" }); // on a phone, the navigation is wider than the screen
  center($(".bar nav [aria-current]"));
  $(".bar nav").addEventListener("focusin", (e) => e.target.matches(":focus-visible") && center(e.target)); // not after a click: the link would move away under the mouse
  depthChart.start();
  writeTimes();
  connect();
  setInterval(() => {
    if (document.hidden) return;
    writeTimes();
    listen();
    depthChart.add($("#live").dataset.state === "on");
  }, 1000);
})();
