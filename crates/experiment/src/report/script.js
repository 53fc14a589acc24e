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

  function number(row, column) {
    var value = row.children[column].getAttribute('data-v');
    return value === null ? row.children[column].textContent : parseFloat(value);
  }

  document.querySelectorAll('table.sortable').forEach(function (table) {
    var body = table.tBodies[0];
    Array.from(table.tHead.rows[0].cells).forEach(function (head, column) {
      var button = document.createElement('button');
      button.type = 'button';
      button.textContent = head.textContent;
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
})();
