"use strict";
(function () {
  var root = document.documentElement;
  window.addEventListener("error", function (event) { root.dataset.error = String(event.message); });

  function copyButtons() {
    if (!navigator.clipboard) { return; }
    document.querySelectorAll(".command").forEach(function (box) {
      var button = document.createElement("button");
      button.type = "button";
      button.textContent = "Copy";
      button.addEventListener("click", function () {
        navigator.clipboard.writeText(box.querySelector("code").textContent).then(function () {
          button.textContent = "Copied";
          setTimeout(function () { button.textContent = "Copy"; }, 1500);
        });
      });
      box.appendChild(button);
    });
  }

  function saveButton(text) {
    var button = document.createElement("button");
    button.type = "button";
    button.textContent = "Save the data as JSON";
    button.addEventListener("click", function () {
      var link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
      link.download = root.dataset.file;
      link.click();
      setTimeout(function () { URL.revokeObjectURL(link.href); }, 1000);
    });
    var line = document.createElement("p");
    line.appendChild(button);
    document.querySelector("footer").appendChild(line);
  }

  // What is folded is printed too, and folded again afterwards.
  var opened = [];
  window.addEventListener("beforeprint", function () {
    opened = Array.prototype.filter.call(document.querySelectorAll("details"), function (d) { return !d.open; });
    opened.forEach(function (d) { d.open = true; });
  });
  window.addEventListener("afterprint", function () {
    opened.forEach(function (d) { d.open = false; });
    opened = [];
  });

  var text = document.getElementById("report-data").textContent;
  var report = JSON.parse(text);
  copyButtons();
  saveButton(text);
  root.dataset.report = report.schema + " " + report.version;
  root.dataset.width = String(window.innerWidth);
  root.dataset.overflow = String(Math.max(0, root.scrollWidth - window.innerWidth));
})();
