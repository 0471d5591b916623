{
  const root = document.getElementById("actions-panel");
  try {
    const program = JSON.parse(document.getElementById("actions-program").textContent);
    createPanel(root, createPolicy(program), program);
  } catch (error) {
    root.textContent = `The policy does not run in this browser: ${error.message}`;
  }
}
