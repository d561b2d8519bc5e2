"use strict";
const FIGURES = JSON.parse(document.getElementById("figures").textContent);
const DARK = matchMedia("(prefers-color-scheme: dark)");
const NARROW = matchMedia("(max-width: 600px)");
const PRINT_PX = 680; // width of a page of A4 or letter paper within its margins

function themed(data, outline) {
  // Outlines keep light colours apart from a light page.
  if (!outline) return data;
  return data.map((trace) => ({ ...trace, marker: { ...trace.marker, line: { width: 0.7, color: outline } } }));
}

function draw(dark, width) {
  const text = dark ? "#e6edf3" : "#1b1f24", line = dark ? "#30363d" : "#d0d7de";
  for (const [name, figure] of Object.entries(FIGURES)) {
    const axis = { gridcolor: line, zerolinecolor: line, automargin: true };
    const layout = {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", dragmode: NARROW.matches ? false : "zoom",
      font: { color: text, size: NARROW.matches ? 11 : 12 }, margin: { t: 20, r: 10, b: 50, l: 50 }, height: 330,
      legend: { orientation: "h", y: 1.02, yanchor: "bottom" }, showlegend: true, bargap: 0.15, ...figure.layout,
      xaxis: { ...axis, ...figure.layout.xaxis }, yaxis: { ...axis, ...figure.layout.yaxis },
      ...(width ? { width } : {}),
    };
    const outlined = name === "path" || name === "waits";
    Plotly.react(name, themed(figure.data, outlined && text), layout, { responsive: true, displayModeBar: false });
  }
}

async function inflated(id) {
  const bytes = Uint8Array.from(atob(document.getElementById(id).textContent), (each) => each.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
}

async function start() {
  if (typeof DecompressionStream === "undefined") {
    for (const chart of document.querySelectorAll(".chart")) chart.textContent = "A browser of 2023 or later draws this chart.";
    return;
  }
  const script = document.createElement("script");
  script.textContent = await inflated("library");
  document.head.append(script);
  const redraw = () => draw(DARK.matches);
  redraw();
  DARK.addEventListener("change", redraw);
  NARROW.addEventListener("change", redraw);
  addEventListener("beforeprint", () => {
    for (const folded of document.querySelectorAll("details")) folded.open = true;
    draw(false, PRINT_PX);
  });
  addEventListener("afterprint", redraw);
  document.body.dataset.drawn = Object.keys(FIGURES).length;
}

const started = start();
