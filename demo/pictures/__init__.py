"""Takes the pictures in docs/screenshots of a project with simulated volunteers.

The package is part of `demo`, because it shows a whole project with simulated computers, as
`demo.trust` does.  It uses the project's own operations and serves its real pages.  Theory of
operation.  `content` simulates two weeks of a project in `var/demo-pictures`; `stage` serves it;
`camera` opens each page of `album` in Chromium and writes its picture.
"""
