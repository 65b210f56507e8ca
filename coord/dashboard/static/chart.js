// The chart of open calls over the last five minutes: running, queued and planned calls, stacked. It starts with the
// samples of the coordinator, one every 5 s. Between two updates nothing changes, so the script adds a point every
// second while the page is connected. For the rest of the time, the chart has a gap.
"use strict";

const depthChart = (() => {
  const kept = 300;
  let box, plot, rows = []; // [seconds, running, queued, planned]; null if unknown

  // probe returns the value of a colour variable in the current colour scheme.
  function probe(name) {
    const span = document.createElement("span");
    span.style.color = `var(${name})`;
    box.append(span);
    const c = getComputedStyle(span).color;
    span.remove();
    return c;
  }

  function stacked() {
    const xs = [], running = [], queued = [], planned = [];
    let last = 0;
    for (const [t, r, q, p] of rows) {
      if (last && t - last > 12 && r !== null) { // no samples: draw a gap
        xs.push(last + 1);
        for (const s of [running, queued, planned]) s.push(null);
      }
      last = t;
      xs.push(t);
      running.push(r);
      queued.push(r === null ? null : r + q);
      planned.push(r === null ? null : r + q + p);
    }
    return [xs, planned, queued, running]; // the highest first, so that the others are painted over it
  }

  function options() {
    const soft = probe("--soft"), line = probe("--line");
    const series = (label, c) => ({ label, stroke: c, fill: c, width: 1, points: { show: false }, paths: uPlot.paths.stepped({ align: 1 }) });
    const font = "12px system-ui, sans-serif";
    return {
      width: box.clientWidth, height: box.clientHeight, legend: { show: false }, cursor: { show: false },
      scales: {
        x: { range: () => [Date.now() / 1000 - kept, Date.now() / 1000] },
        y: { range: (_, __, max) => [0, Math.max(4, Math.ceil((max || 0) * 1.15))] },
      },
      axes: [
        { stroke: soft, font, grid: { show: false }, ticks: { stroke: line, width: 1, size: 4 }, size: 28, space: 90,
          values: (_, ts) => ts.map((t) => new Date(t * 1000).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" })), incrs: [60, 120, 300] },
        { stroke: soft, font, grid: { stroke: line, width: 1 }, ticks: { show: false }, size: 34, space: 36, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 50000] },
      ],
      series: [{}, series("planned", probe("--bar-planned")), series("queued", probe("--bar-queued")), series("running", probe("--bar-running"))],
    };
  }

  function draw() {
    if (!box || typeof uPlot === "undefined") return;
    if (!plot) plot = new uPlot(options(), stacked(), box);
    else plot.setData(stacked());
  }

  function rebuild() {
    if (plot) plot.destroy();
    plot = null;
    draw();
  }

  // start draws the samples of the coordinator.
  function start() {
    box = document.getElementById("chart");
    if (!box) return;
    rows = JSON.parse(box.dataset.history || "[]").map(([t, ...depths]) => [t / 1000, ...depths]);
    draw();
    new ResizeObserver(() => plot && plot.setSize({ width: box.clientWidth, height: box.clientHeight })).observe(box);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", rebuild);
  }

  // add adds a point with the current depths, or a gap if they are not known.
  function add(known) {
    const shown = document.querySelector("#depth > [data-running]");
    if (!box || !shown) return;
    const d = shown.dataset;
    rows.push(known ? [Date.now() / 1000, +d.running, +d.queued, +d.planned] : [Date.now() / 1000, null, null, null]);
    rows = rows.slice(-2 * kept);
    draw();
  }

  return { start, add };
})();
