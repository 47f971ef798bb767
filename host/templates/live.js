(function () {
  var shown = document.documentElement.dataset.version;
  function look() {
    var again = function () { setTimeout(look, 2000); };
    if (document.hidden) { again(); return; }
    fetch("version", { cache: "no-store", credentials: "omit" }).then(function (answer) {
      return answer.ok ? answer.text() : shown;
    }).then(function (now) {
      if (now !== shown) { location.reload(); } else { again(); }
    }).catch(again);
  }
  setTimeout(look, 2000);
})();
