// The page reads well without any of this: panels are then simply all shown.
// No comparison by "less than" and no ampersands here, so that the page stays well-formed XML.
(function () {
  'use strict';
  var panels = Array.from(document.querySelectorAll('.panel'));
  var tabs = Array.from(document.querySelectorAll('.tabs a'));

  function show(id) {
    panels.forEach(function (panel) { panel.hidden = panel.id !== id; });
    tabs.forEach(function (tab) {
      if (tab.hash === '#' + id) tab.setAttribute('aria-current', 'true');
      else tab.removeAttribute('aria-current');
    });
  }

  function fromHash() {
    var id = location.hash.slice(1);
    var known = panels.some(function (panel) { return panel.id === id; });
    return known ? id : '';
  }

  if (panels.length !== 1) {
    if (panels.length) show(fromHash() || panels[0].id);
    window.addEventListener('hashchange', function () {
      var id = fromHash();
      if (!id) return;
      show(id);
      document.getElementById('panels').scrollIntoView();
    });
    tabs.forEach(function (tab) {
      tab.addEventListener('click', function (event) {
        event.preventDefault();
        show(tab.hash.slice(1));
        history.replaceState(null, '', tab.hash);
      });
    });
  }

  // Whether a matrix shows the 99th percentile.
  function isTail() {
    var chosen = document.querySelector('#by-p99:checked');
    return chosen !== null;
  }

  function number(row, column) {
    var cell = row.children[column];
    var value = (isTail() ? cell.getAttribute('data-p') : null) || cell.getAttribute('data-v');
    return value === null ? row.children[column].textContent : parseFloat(value);
  }

  document.querySelectorAll('table.sortable').forEach(function (table) {
    var body = table.tBodies[0];
    Array.from(table.tHead.rows[0].cells).forEach(function (head, column) {
      var button = document.createElement('button');
      button.type = 'button';
      button.append.apply(button, Array.from(head.childNodes));
      head.replaceChildren(button);
      button.addEventListener('click', function () {
        var sign = head.getAttribute('aria-sort') === 'ascending' ? -1 : 1;
        Array.from(head.parentNode.cells).forEach(function (other) { other.removeAttribute('aria-sort'); });
        head.setAttribute('aria-sort', sign === 1 ? 'ascending' : 'descending');
        Array.from(body.rows).sort(function (a, b) {
          var x = number(a, column), y = number(b, column);
          return sign * (x === y ? 0 : x > y ? 1 : -1);
        }).forEach(function (row) { body.appendChild(row); });
      });
    });
  });

  // What stands behind a number of the matrix, below the table: hovering is not for everyone.
  var detail = document.getElementById('detail');
  if (detail !== null) {
    ['mouseover', 'click'].forEach(function (kind) {
      document.querySelector('table.heat').addEventListener(kind, function (event) {
        var cell = event.target.closest('td[title]');
        if (cell !== null) detail.textContent = cell.title;
      });
    });
  }

  // A link to a balancer opens its block.
  function open() {
    var target = document.getElementById(location.hash.slice(1));
    if (target !== null) if (target.tagName === 'DETAILS') target.open = true;
  }
  window.addEventListener('hashchange', open);
  open();
})();
