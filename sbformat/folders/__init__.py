"""What people keep around an agent: its statistics, replay buffers, settings and checkpoints (FOLDERS.md 21).

In: a folder. Out: a :class:`FolderReport`: each agent with the files that belong to it, and the files that belong to
none. Contents decide what a file is, names and places decide what belongs together; nothing is executed.

1. ``listing`` lists the files, those of folders below too, and opens those that may be archives for their kind.
2. ``names`` reads the names: ``rl_model_vecnormalize_1000_steps.pkl`` is of step 1000 of the series ``rl_model``; and
   gives the folders in which to look for the files of an agent, the nearest first.
3. ``agents`` joins them, and chooses one agent with its statistics, for ``load_policy(folder)``.
4. ``settings`` reads ``config.yml``, if PyYAML is installed.
5. ``trees`` lists archives for commands, and finds the statistics of one agent without opening its whole folder.

Worked example, a folder of rl_zoo3::

    best_model.zip                         best        Pendulum-v1/vecnormalize.pkl, Pendulum-v1/config.yml
    Pendulum-v1.zip                        agent       Pendulum-v1/vecnormalize.pkl, Pendulum-v1/config.yml
    rl_model_1000_steps.zip                checkpoint  rl_model_vecnormalize_1000_steps.pkl, Pendulum-v1/config.yml
    rl_model_vecnormalize_1000_steps.pkl
    Pendulum-v1/config.yml
    Pendulum-v1/vecnormalize.pkl
    evaluations.npz                        another file: evaluations of EvalCallback
"""
