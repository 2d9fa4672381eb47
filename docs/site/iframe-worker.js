// The search without a server: a browser starts no worker for pages of file://. So the
// worker's script runs in a hidden frame. mkdocs-material looks for this file's name.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.appendChild(frame);
      this.inside = frame.contentWindow;
      this.inside.postMessage = (data) =>
        this.dispatchEvent(new MessageEvent("message", { data }));
      const script = this.inside.document.createElement("script");
      script.src = url;
      this.loaded = new Promise((done) => (script.onload = done));
      this.inside.document.body.appendChild(script);
    }

    postMessage(data) {
      const { MessageEvent } = this.inside;
      this.loaded.then(() =>
        this.inside.dispatchEvent(new MessageEvent("message", { data })),
      );
    }
  };
}
