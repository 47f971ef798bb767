"use strict";
(function () {
  var each = function (list, work) { Array.prototype.forEach.call(list, work); };

  // A number that cannot be read sorts below all others.
  function key(row, column, numeric) {
    var cell = row.cells[column];
    if (!numeric) { return cell.textContent.trim().toLowerCase(); }
    var number = cell.dataset.v === undefined || cell.dataset.v === "" ? NaN : Number(cell.dataset.v);
    return isNaN(number) ? -Infinity : number;
  }

  function sortable(table) {
    var body = table.tBodies[0];
    var heads = table.tHead.rows[0].cells;
    each(heads, function (head, column) {
      var numeric = head.dataset.sort === "number";
      var button = document.createElement("button");
      button.type = "button";
      button.className = "sort";
      while (head.firstChild) { button.appendChild(head.firstChild); }
      head.appendChild(button);
      button.addEventListener("click", function () {
        var before = head.getAttribute("aria-sort");
        var order = before ? (before === "descending" ? "ascending" : "descending") : (numeric ? "descending" : "ascending");
        each(heads, function (other) { other.removeAttribute("aria-sort"); });
        head.setAttribute("aria-sort", order);
        var sign = order === "ascending" ? 1 : -1;
        var rows = Array.prototype.map.call(body.rows, function (row, place) {
          return { row: row, place: place, key: key(row, column, numeric) };
        });
        rows.sort(function (a, b) { return sign * (a.key < b.key ? -1 : a.key > b.key ? 1 : 0) || a.place - b.place; });
        var sorted = document.createDocumentFragment();
        rows.forEach(function (it) { sorted.appendChild(it.row); });
        body.appendChild(sorted);
      });
    });
  }

  function filters(box) {
    var rows = document.getElementById(box.dataset.table).tBodies[0].rows;
    var part = function (name) { return box.querySelector("[data-filter=" + name + "]"); };
    var words = part("text"), outside = part("outside"), category = part("category"), count = box.querySelector("output");
    function apply() {
      var wanted = words.value.trim().toLowerCase();
      var shown = 0;
      each(rows, function (row) {
        var fits = (!wanted || row.textContent.toLowerCase().indexOf(wanted) >= 0) &&
          (!outside.checked || row.dataset.outside === "yes") &&
          (!category.value || row.dataset.category === category.value);
        row.hidden = !fits;
        if (fits) { shown += 1; }
      });
      count.textContent = shown + " of " + rows.length + " shown";
    }
    box.hidden = false;
    [words, outside, category].forEach(function (input) { input.addEventListener("input", apply); });
    apply();
  }

  each(document.querySelectorAll("table.sortable"), sortable);
  each(document.querySelectorAll(".filters"), filters);
})();
