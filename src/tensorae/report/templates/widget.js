// The map in a notebook: in a shadow of its own, so that styles and names stay inside.
export default {
  render({ model, el }) {
    const root = el.attachShadow({ mode: "open" });
    root.innerHTML = model.get("_page");
    const adopt = () => setRows(model.get("selection"));
    const setRows = drawMap(root, JSON.parse(model.get("_points")), (rows) => {
      model.set("selection", rows.sort((a, b) => a - b));
      model.save_changes();
    });
    adopt();
    model.on("change:selection", adopt);
    return () => model.off("change:selection", adopt);
  },
};
