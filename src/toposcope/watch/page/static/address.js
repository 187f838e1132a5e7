// The view is kept in the URL, so that a link reproduces it.
const query = () => new URLSearchParams(location.search);

export const view = {
  get(name, otherwise = "") {
    return query().get(name) ?? otherwise;
  },
  list(name) {
    return query().getAll(name);
  },
  set(changes) {
    const next = query();
    for (const [name, value] of Object.entries(changes)) {
      next.delete(name);
      if (Array.isArray(value)) value.forEach((one) => next.append(name, one));
      else if (value !== "" && value !== null && value !== undefined) next.set(name, value);
    }
    const text = next.toString();
    history.replaceState(null, "", location.pathname + (text ? `?${text}` : "") + location.hash);
  },
};
